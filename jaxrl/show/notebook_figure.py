"""A figure that a notebook shows, also without pyplot."""

import io

import matplotlib
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """matplotlib's figure; as the last value of a cell it is shown as a picture."""

    def _repr_png_(self) -> bytes:
        from jaxrl.show.plot import STYLE

        file = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(file, format="png", dpi=self.dpi)
        return file.getvalue()
