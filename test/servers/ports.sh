# For scripts that start servers on loopback.

taken() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Below the range from which the kernel takes ports for outgoing connections.
free_port() {
  local port
  while port=$((20000 + RANDOM % 12000)) && taken "$port"; do :; done
  echo "$port"
}
