//! Measures replies of Redis (RESP) while they arrive, so that a reply that is too long is detected
//! before it is stored.
//!
//! Only forms that every Redis sends are accepted. Anything else could be split into replies
//! differently than by the Redis client, and would then not be counted.

use std::mem;

/// Maximum memory that a reply may need, in bytes. A page of a listing needs about 1 MiB, a script
/// call with 100 results of 64 KiB less than 7 MiB, and a page of an export up to 17 MiB, because
/// HSCAN can return five times as many entries as requested.
const REPLY_MAX: usize = 32 << 20;
/// Maximum length of a line of text (a status or an error), in bytes.
const LINE_MAX: usize = 64 << 10;
/// Maximum number of digits in a number of bytes or elements.
const DIGITS_MAX: usize = 20;
/// Memory of an element of a reply, in addition to its bytes.
const ELEMENT_BYTES: usize = 64;
/// Maximum nesting depth of arrays.
const DEPTH_MAX: usize = 16;

const TOO_LONG: &str = "a reply is longer than any reply to Tollgate";
const UNKNOWN: &str = "a reply is not in the format of Redis";

/// The replies of a connection. Bytes arrive in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The number of elements that are left in each array around the current element.
    left: Vec<u64>,
    /// The memory of the current reply so far.
    size: usize,
    /// The number of complete replies.
    ended: usize,
    part: Part,
}

/// The meaning of the next byte.
#[derive(Debug, Default)]
enum Part {
    /// The type of an element.
    #[default]
    Type,
    /// The rest of a line of text.
    Text(TextLine),
    /// The rest of a line with a number of bytes or elements.
    Number(NumberLine),
    /// The content of a string and its end, with the number of bytes that are left.
    Content(usize),
}

#[derive(Debug, Clone, Copy, Default)]
struct TextLine {
    length: usize,
    /// Whether the last byte was a carriage return.
    is_ending: bool,
}

#[derive(Debug)]
struct NumberLine {
    kind: u8,
    /// The number of digits.
    digits: usize,
    number: u64,
    is_negative: bool,
    is_ending: bool,
}

impl Replies {
    /// Reads bytes. Fails with the reason if a reply is too long.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while let [first, rest @ ..] = bytes {
            match mem::take(&mut self.part) {
                Part::Type => {
                    self.part = part(*first)?;
                    bytes = rest;
                }
                Part::Text(line) => {
                    self.text(*first, line)?;
                    bytes = rest;
                }
                Part::Number(line) => {
                    self.number(*first, line)?;
                    bytes = rest;
                }
                Part::Content(left) => {
                    let read = left.min(bytes.len());
                    bytes = &bytes[read..];
                    match left - read {
                        0 => self.complete(),
                        left => self.part = Part::Content(left),
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the number of complete replies since the last [`Replies::take_ended`].
    pub(super) fn ended(&self) -> usize {
        self.ended
    }

    /// Restarts the count. Returns the number of complete replies; `None` if part of another one
    /// has arrived.
    pub(super) fn take_ended(&mut self) -> Option<usize> {
        let is_between = self.left.is_empty() && matches!(self.part, Part::Type);
        let ended = mem::take(&mut self.ended);
        is_between.then_some(ended)
    }

    /// Reads a byte of a line of text, which ends only with both end characters together.
    fn text(&mut self, byte: u8, line: TextLine) -> Result<(), &'static str> {
        if byte == b'\n' && line.is_ending {
            self.add(line.length)?;
            self.complete();
            return Ok(());
        }
        if line.length == LINE_MAX {
            return Err(TOO_LONG);
        }
        self.part = Part::Text(TextLine { length: line.length + 1, is_ending: byte == b'\r' });
        Ok(())
    }

    /// Reads a byte of a line with a number.
    fn number(&mut self, byte: u8, mut line: NumberLine) -> Result<(), &'static str> {
        match byte {
            b'0'..=b'9'
                if !line.is_ending
                    && line.number <= REPLY_MAX as u64
                    && line.digits < DIGITS_MAX =>
            {
                line.digits += 1;
                line.number = line.number * 10 + u64::from(byte - b'0');
            }
            b'0'..=b'9' if !line.is_ending => return Err(TOO_LONG),
            b'-' if !line.is_ending && !line.is_negative && line.number == 0 => {
                line.is_negative = true;
            }
            b'\r' if !line.is_ending => line.is_ending = true,
            b'\n' if line.is_ending => return self.begin(&line),
            _ => return Err(UNKNOWN),
        }
        self.part = Part::Number(line);
        Ok(())
    }

    /// Begins the string or the elements of a completed line. The declared length counts
    /// immediately.
    fn begin(&mut self, line: &NumberLine) -> Result<(), &'static str> {
        let number = usize::try_from(line.number).map_err(|_| TOO_LONG)?;
        let elements = match line.kind {
            // A nil value has -1 in place of a length.
            b'$' | b'*' if line.is_negative && number == 1 => 0,
            _ if line.is_negative => return Err(UNKNOWN),
            b'$' | b'=' | b'!' => {
                self.add(number)?;
                self.part = Part::Content(number + 2);
                return Ok(());
            }
            b'%' => number.saturating_mul(2),
            // The element that the attributes belong to follows them.
            b'|' => number.saturating_mul(2).saturating_add(1),
            _ => number,
        };
        self.add(elements.saturating_mul(ELEMENT_BYTES))?;
        match elements {
            0 => self.complete(),
            _ if self.left.len() == DEPTH_MAX => return Err(TOO_LONG),
            elements => self.left.push(elements as u64),
        }
        Ok(())
    }

    fn add(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.size = self.size.saturating_add(bytes);
        if self.size > REPLY_MAX { Err(TOO_LONG) } else { Ok(()) }
    }

    /// Ends an element, and the arrays that it completes.
    fn complete(&mut self) {
        while let Some(left) = self.left.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.left.pop();
        }
        self.size = 0;
        self.ended += 1;
    }
}

/// Returns what follows the type of an element.
fn part(kind: u8) -> Result<Part, &'static str> {
    match kind {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Ok(Part::Text(TextLine::default())),
        b'$' | b'*' | b'%' | b'~' | b'|' | b'>' | b'=' | b'!' => Ok(Part::Number(NumberLine {
            kind,
            digits: 0,
            number: 0,
            is_negative: false,
            is_ending: false,
        })),
        _ => Err(UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j16_replies_are_measured_however_the_bytes_are_cut_up() {
        let text = b"+OK\r\n*3\r\n$5\r\na\r\n*b\r\n:-12\r\n*2\r\n$-1\r\n*0\r\n-ERR x\ny\r\n\
            $0\r\n\r\n%1\r\n+k\r\n:1\r\n*-1\r\n|1\r\n+k\r\n:1\r\n*1\r\n:2\r\n";
        for piece in [1, 2, 3, 7, text.len()] {
            let mut replies = Replies::default();
            for part in text.chunks(piece) {
                assert_eq!(replies.read(part), Ok(()));
            }
            assert_eq!(replies.size, 0, "{piece}: {replies:?}");
            assert_eq!(replies.take_ended(), Some(7), "{piece}: {replies:?}");
        }
        let mut replies = Replies::default();
        assert_eq!(replies.read(b"*2\r\n$3\r\nabc\r\n"), Ok(()));
        assert_eq!(replies.size, 3 + 2 * ELEMENT_BYTES);
        assert_eq!(replies.take_ended(), None, "its second element is missing");
    }

    #[test]
    fn j16_a_reply_above_the_bound_is_detected() {
        let noticed = |bytes: &[u8]| Replies::default().read(bytes).is_err();
        assert!(noticed(b"$99999999999\r\n"));
        assert!(noticed(b"$33554433\r\n"));
        assert!(noticed(b"*9999999999\r\n"));
        assert!(noticed(b"%262145\r\n"));
        assert!(noticed(&[b"+", &[b'x'; LINE_MAX + 1][..]].concat()));
        assert!(noticed(&[b"$", &[b'0'; DIGITS_MAX + 1][..]].concat()));
        assert!(noticed(&[b"+", &[b'\n'; LINE_MAX + 1][..]].concat()));
        assert!(noticed(&b"*1\r\n".repeat(DEPTH_MAX + 1)));
        let mut many = Replies::default();
        assert_eq!(many.read(b"*1000\r\n"), Ok(()));
        let element = [b"$65536\r\n", &[b'x'; 65_536][..], b"\r\n"].concat();
        assert!((0..1000).any(|_| many.read(&element).is_err()));
        // Many replies in a row do not count as one.
        let mut short = Replies::default();
        assert!((0..1000).all(|_| short.read(&element).is_ok()));
    }

    #[test]
    fn j16_forms_that_two_readers_could_split_differently_are_refused() {
        for bytes in
            [&b"$ 1\r\n"[..], b"=-1\r\n", b"%-1\r\n", b"$1\n", b"$-2\r\n", b"x", b"*+1\r\n"]
        {
            assert_eq!(Replies::default().read(bytes), Err(UNKNOWN), "{}", bytes.escape_ascii());
        }
    }
}
