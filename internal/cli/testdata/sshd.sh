# Four hosts that ssh reaches, in namespaces of this shell's own: g0 to g3, each with
# its own network, host name, host key and port. Arguments: a directory for files, the
# paths of ssh and sshd, and the variables that each login has. Prints "ready".
set -eu
dir=$1 ssh=$2 sshd=$3 variables=$4
mount -t tmpfs tmpfs /run
mkdir /run/sshd
mkdir "$dir/bin"
printf '#!/bin/sh\nexec %s -F %s/config "$@"\n' "$ssh" "$dir" >"$dir/bin/ssh"
chmod +x "$dir/bin/ssh"
ssh-keygen -q -t ed25519 -N '' -f "$dir/user"
ip link set lo up
ip link add br0 type bridge
ip addr add 10.0.0.254/24 dev br0
ip link set br0 up
for i in 0 1 2 3; do
	host=g$i addr=10.0.0.$((i + 1)) port=$((2200 + i))
	ip netns add $host
	ip link add v$i type veth peer name eth0 netns $host
	ip link set v$i master br0 up
	ip -n $host link set lo up
	ip -n $host addr add $addr/24 dev eth0
	ip -n $host link set eth0 up
	ssh-keygen -q -t ed25519 -N '' -f "$dir/$host"
	printf '%s %s\n' $host "$(cat "$dir/$host.pub")" >>"$dir/known_hosts"
	printf 'Host %s\n\tHostName %s\n\tPort %s\n\tHostKeyAlias %s\n' $host $addr $port $host >>"$dir/config"
	ip netns exec $host unshare --uts sh -c 'hostname "$0" && exec "$@"' $host \
		"$sshd" -D -f /dev/null -E "$dir/$host.log" -o Port=$port -o HostKey="$dir/$host" -o PidFile=none \
		-o AuthorizedKeysFile="$dir/user.pub" -o StrictModes=no -o PermitRootLogin=prohibit-password \
		-o UsePAM=no -o UseDNS=no -o SetEnv="CLUSTER_HOST=$host $variables" &
	until grep -qs 'Server listening on' "$dir/$host.log"; do
		kill -0 $!
		sleep 0.05
	done
done
cat >>"$dir/config" <<END
Host *
	IdentityFile $dir/user
	IdentitiesOnly yes
	UserKnownHostsFile $dir/known_hosts
	GlobalKnownHostsFile /dev/null
	StrictHostKeyChecking yes
END
echo ready
wait
