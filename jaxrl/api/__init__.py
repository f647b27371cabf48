"""The functions that `import jaxrl` offers."""
