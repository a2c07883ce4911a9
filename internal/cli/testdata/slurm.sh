# A cluster of Slurm, in namespaces of this shell's own: nodes n0 to n3, which share the
# host's name. The argument is a directory for files. Prints "ready".
set -eu
dir=$1
export SLURM_CONF=$dir/slurm.conf
ip link set lo up
ip link add br0 type bridge # daemons find oshrun by an address other than loopback
ip addr add 10.0.0.254/24 dev br0
ip link set br0 up
mkdir "$dir/state"
host=$(hostname)
cat >"$SLURM_CONF" <<END
ClusterName=goshmem
SlurmctldHost=${host%%.*}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmdSpoolDir=$dir/%n.spool
SlurmdParameters=config_overrides
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n[0-3] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[17000-17003] CPUs=4
PartitionName=all Nodes=ALL Default=YES
END
dd if=/dev/urandom of="$dir/key" bs=1024 count=1 status=none
chmod 400 "$dir/key"
munged --foreground --force --key-file="$dir/key" --socket="$dir/munge" --pid-file="$dir/munged.pid" \
	--log-file="$dir/munged.log" --seed-file="$dir/seed" >"$dir/munged.out" 2>&1 &
munged=$!
until [ -S "$dir/munge" ]; do
	kill -0 $munged
	sleep 0.05
done
slurmctld -D >"$dir/slurmctld.log" 2>&1 &
slurmctld=$!
for i in 0 1 2 3; do
	slurmd -D -N n$i >"$dir/n$i.log" 2>&1 &
done
until [ "$(sinfo --noheader --states=idle --format=%D 2>/dev/null)" = 4 ]; do
	kill -0 $munged $slurmctld
	sleep 0.1
done
echo ready
wait
