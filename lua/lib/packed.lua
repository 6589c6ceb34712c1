-- Values packed in binary, little-endian; whole numbers below 2^53 are exact. This is a third
-- faster than text, which is mostly 16-digit times.
local call, format = redis.call, string.format
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local pack, scan, sub = struct.pack, struct.unpack, string.sub

-- Times stay below 2^52 µs, the year 2112, so that their sums are exact.
local TIME_MAX = 4503599627370495

-- Strings that a batch has read ahead, by key; false for an absent key.
local ahead = {}

-- Reads all keys with one MGET. If one has another type, nothing is read ahead, and its GET
-- fails later. MGET reports such a key as absent; EXISTS does not.
local function read_ahead(keys)
  local texts, absent = call('MGET', unpack(keys)), {}
  for i = 1, #keys do
    local text = texts[i]
    ahead[keys[i]] = text
    if not text then
      absent[#absent + 1] = keys[i]
    end
  end
  if #absent > 0 and call('EXISTS', unpack(absent)) > 0 then
    ahead = {}
  end
end

local function get(key)
  local text = ahead[key]
  if text == nil then
    return call('GET', key)
  end
  return text
end

-- Sets a key with a TTL of `left` µs.
local function set(key, value, left)
  call('SET', key, value, 'PX', format('%d', ceil(left / 1000)))
  if ahead[key] ~= nil then
    ahead[key] = value
  end
end

local function drop(key)
  call('DEL', key)
  if ahead[key] ~= nil then
    ahead[key] = false
  end
end
