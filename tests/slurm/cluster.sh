#!/bin/sh
# A Slurm cluster of one machine, for tests: munge, slurmctld and slurmd of Debian's
# packages, in a directory of their own and on the loopback alone.  Needs root.
#
#   cluster.sh install        what is missing, by apt-get
#   cluster.sh start DIR      then: export SLURM_CONF=DIR/slurm.conf
#   cluster.sh stop DIR       everything that start started
#
# Each may be called again.  Partitions: `low`, whose jobs are queued again when `high`
# wants their place, and `graceful`, which gives them ten seconds.  None is the default.
# CPUS=4 in the environment says how many jobs run side by side.
set -eu

fail() {
    echo "cluster.sh: $*" >&2
    exit 1
}

need_root() {
    [ "$(id -u)" = 0 ] || fail "a test cluster needs root, for slurmd starts jobs as others."
}

install() {
    missing=""
    for pair in munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client; do
        PATH="$PATH:/usr/sbin" command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
    done
    [ -n "$missing" ] || return 0
    need_root
    command -v apt-get >/dev/null || fail "missing:$missing. Install them; this machine has no apt-get."
    echo "Installing$missing"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # words, not one
    { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 \
        || { tail -n 5 "$log" >&2; fail "apt-get could not install$missing; see $log."; }
    rm -f "$log"
}

free_port() {
    python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
}

configure() {
    host=$(hostname -s)
    cpus=${CPUS:-4}
    # ReturnToService, config_overrides: the node counts as the configuration says.
    # cred_expire: also how long a job that was queued again has to wait; else 120 s.
    # KillWait: between the request to end and the end; jobs here end when asked.
    # MinJobAge: jobs stay known for so long after their end, to be counted; else 300 s.
    cat >"$1/slurm.conf" <<END
ClusterName=driftrl
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$1/munge.socket,cred_expire=5
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd.log
SlurmctldDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=10
MinJobAge=3600
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$((cpus * 2048)) State=UNKNOWN
PartitionName=low Nodes=$host MaxTime=01:00:00 DefaultTime=00:30:00 PriorityTier=1
PartitionName=graceful Nodes=$host MaxTime=01:00:00 PriorityTier=1 GraceTime=10
PartitionName=high Nodes=$host MaxTime=01:00:00 PriorityTier=10 PreemptMode=OFF
END
}

started() {
    [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null
}

start() {
    need_root
    mkdir -p "$1/state" "$1/spool"
    chmod 755 "$1" "$1/spool"
    [ -s "$1/munge.key" ] || dd if=/dev/urandom of="$1/munge.key" bs=1024 count=1 2>/dev/null
    chmod 600 "$1/munge.key"
    [ -s "$1/slurm.conf" ] || configure "$1"
    export SLURM_CONF="$1/slurm.conf" PATH="$PATH:/usr/sbin"
    started "$1/munged.pid" || munged --force --key-file="$1/munge.key" --socket="$1/munge.socket" \
        --pid-file="$1/munged.pid" --log-file="$1/munged.log" --seed-file="$1/munged.seed" \
        || fail "munged did not start; see $1/munged.log."
    started "$1/slurmctld.pid" || slurmctld -f "$SLURM_CONF" \
        || fail "slurmctld did not start; see $1/slurmctld.log."
    started "$1/slurmd.pid" || slurmd -f "$SLURM_CONF" \
        || fail "slurmd did not start; see $1/slurmd.log."
    for _ in $(seq 60); do
        case "$(sinfo -h -p low -o %T 2>/dev/null)" in
        idle | mixed | allocated) return 0 ;;
        esac
        sleep 0.5
    done
    fail "the node did not come up in 30 s; see $1/slurmctld.log and $1/slurmd.log."
}

stop() {
    export SLURM_CONF="$1/slurm.conf"
    if started "$1/slurmctld.pid"; then
        timeout 10 scancel -u "$(id -un)" 2>/dev/null || true
        for _ in $(seq 30); do
            [ -n "$(timeout 10 squeue -h 2>/dev/null)" ] || break
            sleep 0.5
        done
    fi
    for name in slurmd slurmctld munged; do
        started "$1/$name.pid" || continue
        process=$(cat "$1/$name.pid")
        kill "$process"
        for _ in $(seq 40); do
            kill -0 "$process" 2>/dev/null || break
            sleep 0.25
        done
        kill -9 "$process" 2>/dev/null || true
        rm -f "$1/$name.pid"
    done
}

case "${1:-} $#" in
"install 1") install ;;
"start 2") start "$(mkdir -p "$2" && cd "$2" && pwd)" ;;
"stop 2") [ ! -d "$2" ] || stop "$(cd "$2" && pwd)" ;;
*) fail "say install, start DIR or stop DIR." ;;
esac
