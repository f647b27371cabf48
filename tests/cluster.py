"""A Slurm of one node, for tests: its daemons live in a directory and end with it."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

NEEDED = ("setpriv", "munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
CONF = """\
ClusterName=tests
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={root}/munge.socket,cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
MinJobAge=300
MaxArraySize=4
KillWait=20
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=2000 Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=60 State=UP
"""


@contextlib.contextmanager
def slurm(root):
    """Starts Slurm's daemons; tests that need them are skipped where it cannot."""
    if absent := [name for name in NEEDED if shutil.which(name) is None]:
        pytest.skip(
            f"no {absent[0]} here; apt install slurmctld slurmd slurm-client munge"
        )
    if os.getuid() != 0:
        pytest.skip("Slurm's daemons need root")
    host = socket.gethostname().split(".")[0]
    for name in "state", "spool":
        (root / name).mkdir()
    conf = root / "slurm.conf"
    settings = {
        "host": host,
        "root": root,
        "ports": free_ports(2),
        "cpus": os.cpu_count(),
    }
    conf.write_text(CONF.format(**settings))
    (root / "gres.conf").write_text("Name=gpu File=/dev/null\n")  # nothing opens it
    with contextlib.ExitStack() as daemons:
        start_munge(root, daemons)
        for words in ["slurmctld", "-D", "-f", conf], ["slurmd", "-D", "-f", conf]:
            daemons.enter_context(daemon(words, root))
        wait_until_idle(conf, root)
        yield conf


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


def start_munge(root, daemons):
    key = root / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    files = {"key-file": key, "socket": root / "munge.socket"}
    files |= {
        f"{name}-file": root / f"munged.{name}" for name in ("pid", "log", "seed")
    }
    words = [f"--{name}={file}" for name, file in files.items()]
    daemons.enter_context(daemon(["munged", "--foreground", "--force", *words], root))
    deadline = time.monotonic() + 10
    while not files["socket"].exists():
        if time.monotonic() > deadline:
            pytest.skip(f"munged does not start: {last_line(root, 'munged')}")
        time.sleep(0.1)


@contextlib.contextmanager
def daemon(words, root):
    """A process that is asked to end, and killed where it does not."""
    with (root / f"{words[0]}.out").open("wb") as output:
        process = subprocess.Popen(
            # It ends with this process, also where that is killed.
            ["setpriv", "--pdeathsig", "TERM", *map(str, words)],
            stdout=output,
            stderr=output,
            env=os.environ | {"SLURM_CONF": str(root / "slurm.conf")},
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_until_idle(conf, root):
    words = ["sinfo", "--noheader", "--format=%t"]
    deadline = time.monotonic() + 30
    environment = os.environ | {"SLURM_CONF": str(conf)}
    while True:
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        if done.stdout.strip() == "idle":
            return
        if time.monotonic() > deadline:
            logs = f"{last_line(root, 'slurmctld')}; {last_line(root, 'slurmd')}"
            pytest.skip(f"Slurm does not start: {done.stdout}{done.stderr}; {logs}")
        time.sleep(0.3)


def last_line(root, name):
    """The last line that a daemon wrote."""
    lines = (root / f"{name}.out").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"
