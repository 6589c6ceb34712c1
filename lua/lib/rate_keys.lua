-- The keys of the items of a run of checks, of which the first two are usage and ban.
--
-- @include prefetch

-- Reads the first two keys of each item of a run: usages and bans. Usually no key has a ban, which
-- a single EXISTS shows.
local function rate_keys_prefetch(first, last)
  local read, bans, at = {}, {}, 0
  for i = first, last, ITEM_KEYS do
    at = at + 1
    read[at], bans[at] = KEYS[i], KEYS[i + 1]
  end
  local has_bans = call('EXISTS', unpack(bans)) > 0
  for i = 1, at do
    if has_bans then
      read[at + i] = bans[i]
    else
      prefetch_texts[bans[i]] = false
    end
  end
  prefetch(read)
end
