-- What the proxy does before it answers: who holds the key, and whether a request of the day is left. Keys are known by
-- the SHA-256 of their text. Records and counters lie in the memory that nginx's workers share.
local ffi = require "ffi"
ffi.cdef "unsigned char *SHA256(const unsigned char *text, size_t length, unsigned char *digest);"
local digest = ffi.new "unsigned char[32]"
local day = 86400
local keys, quota = ngx.shared.keys, ngx.shared.quota

local function digest_of(key)
  ffi.C.SHA256(key, #key, digest)
  return ffi.string(digest, 32)
end

local function refuse(status, code)
  ngx.status = status
  ngx.header["Content-Type"] = "application/problem+json"
  ngx.print('{"status":', status, ',"code":"', code, '"}')
  return ngx.exit(status)
end

local gate = {}

-- Epoch seconds, units a day.
function gate.add(key, plan, owner, limit, expires)
  keys:set(digest_of(key), table.concat({ plan, owner, limit, expires }, " "))
end

function gate.check()
  local key = ngx.var.http_x_api_key
  if not key then return refuse(401, "API_KEY_REQUIRED") end
  local record = keys:get(digest_of(key))
  if not record then return refuse(401, "INVALID_API_KEY") end
  local plan, owner, limit, expires = record:match "^(%S+) (%S+) (%d+) (%d+)$"
  limit = tonumber(limit)
  local now = ngx.time()
  if tonumber(expires) <= now then return refuse(401, "INVALID_API_KEY") end

  local reset = now - now % day + day
  local account = reset .. plan .. owner
  local left = limit - quota:incr(account, 1, 0, 2 * day)
  if left < 0 then quota:incr(account, -1) end
  ngx.header["X-RateLimit-Limit"] = limit
  ngx.header["X-RateLimit-Remaining"] = math.max(0, left)
  ngx.header["X-RateLimit-Reset"] = reset
  if left < 0 then return refuse(429, "QUOTA_EXCEEDED") end
end

return gate
