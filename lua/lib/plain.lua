-- Replies of plain scripts (lib/rows.lua).
--
-- The status of a decision that is not plain.
local PLAIN_DECLINED = 255
local plain_replies, plain_failed, plain_message = {}, nil, nil

-- Appends a reply `times` times.
local function plain_reply(reply, times)
  local last = #plain_replies
  for i = last + 1, last + times do
    plain_replies[i] = reply
  end
end
