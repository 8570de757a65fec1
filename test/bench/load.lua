-- Asks for the paths of a file in turn, one a line; wrk adds the headers of its command line.
local paths = {}
local position

function init(args)
  for path in io.lines(args[1]) do
    paths[#paths + 1] = path
  end
  position = tonumber(args[2]) % #paths
end

function request()
  position = position % #paths + 1
  return wrk.format("GET", paths[position])
end
