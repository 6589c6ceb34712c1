//! A minimal HPACK. Encodes the headers of a call; after the first call, by table index. Reads
//! `grpc-status` from the headers of a response.

/// Length of the Huffman-coded name `grpc-status`; no other response header name has it.
const STATUS_LENGTH: usize = 8;

/// Encodes the request headers of a connection.
pub(crate) struct Request {
    first: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn new(path: &str) -> Request {
        let mut first = Vec::new();
        first.push(0x40 | 4);
        text(&mut first, path);
        first.push(0x40 | 1);
        text(&mut first, "localhost");
        first.push(0x40 | 31);
        text(&mut first, "application/grpc");
        first.push(0x40);
        text(&mut first, "te");
        text(&mut first, "trailers");
        Request { first: Some(first) }
    }

    /// Encodes the headers of the next call.
    pub(crate) fn block(&mut self, timeout_millis: u128) -> Vec<u8> {
        // Static table: POST, http.
        let mut block = vec![0x83, 0x86];
        match self.first.take() {
            Some(first) => block.extend(first),
            // Entries that the first call added to the dynamic table.
            None => block.extend([0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62]),
        }
        block.push(0);
        text(&mut block, "grpc-timeout");
        text(&mut block, &format!("{timeout_millis}m"));
        block
    }
}

fn text(block: &mut Vec<u8>, text: &str) {
    block.push(text.len() as u8);
    block.extend(text.as_bytes());
}

/// Returns the value of `grpc-status` in a header block.
pub(crate) fn grpc_status(mut block: &[u8]) -> Option<u16> {
    while let [first, ..] = *block {
        if first & 0x80 != 0 {
            integer(&mut block, 7)?;
        } else if first & 0xe0 == 0x20 {
            integer(&mut block, 5)?;
        } else {
            let bits = if first & 0x40 != 0 { 6 } else { 4 };
            let index = integer(&mut block, bits)?;
            let name = if index == 0 { Some(string(&mut block)?) } else { None };
            let value = string(&mut block)?;
            if name.is_some_and(|(coded, name)| {
                if coded { name.len() == STATUS_LENGTH } else { name == b"grpc-status" }
            }) {
                return number(value);
            }
        }
    }
    None
}

fn integer(block: &mut &[u8], bits: u32) -> Option<usize> {
    let most = (1usize << bits) - 1;
    let mut value = *block.split_off_first()? as usize & most;
    let mut shift = 0;
    while value >= most && shift < 28 {
        let next = *block.split_off_first()?;
        value += ((next & 0x7f) as usize) << shift;
        if next & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    Some(value)
}

fn string<'a>(block: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    let coded = block.first()? & 0x80 != 0;
    let length = integer(block, 7)?;
    Some((coded, block.split_off(..length)?))
}

/// Parses one or two digits; Huffman codes have five bits for `0` to `2`, six for others.
fn number((coded, bytes): (bool, &[u8])) -> Option<u16> {
    if !coded {
        return std::str::from_utf8(bytes).ok()?.parse().ok();
    }
    let bits = bytes.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
    let (mut left, mut value) = (bytes.len() as u32 * 8, 0u16);
    while left >= 5 {
        let five = bits >> (left - 5) & 0x1f;
        if five < 3 {
            value = value * 10 + five as u16;
            left -= 5;
        } else if left >= 6 && (0x19..=0x1f).contains(&(bits >> (left - 6) & 0x3f)) {
            value = value * 10 + ((bits >> (left - 6) & 0x3f) - 0x16) as u16;
            left -= 6;
        } else {
            break;
        }
    }
    Some(value)
}
