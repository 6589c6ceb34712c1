//! The messages in the body of a request.
//!
//! A message has a prefix of five bytes: a flag for compression and a length of four bytes,
//! big-endian. Prefixes and messages can be split over frames in any way. A length above the
//! maximum is rejected as soon as the prefix is known, before the message is received.

use tonic::Status;

use super::PREFIX;
use crate::rejections::Rejections;
use tollgate_telemetry::limits::ReachedLimit;

/// The current position in the messages of a body.
#[derive(Debug)]
pub(super) struct Messages {
    /// The longest message of the service.
    longest: usize,
    rejections: &'static Rejections,
    /// The prefix of the current message, or of the last one.
    prefix: [u8; PREFIX],
    /// The number of received bytes of the current message's prefix; 0 between messages.
    known: usize,
    /// The number of missing bytes of the current message.
    rest: usize,
    /// Whether any message is complete.
    is_any: bool,
}

impl Messages {
    /// Creates the state before the first byte of a body.
    pub(super) fn new(longest: usize, rejections: &'static Rejections) -> Messages {
        Messages { longest, rejections, prefix: [0; PREFIX], known: 0, rest: 0, is_any: false }
    }

    /// Returns the maximum message length of the service, compressed or not.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Reads further data. Returns the number of missing bytes of the current message. Fails with
    /// RESOURCE_EXHAUSTED if the message is too long.
    pub(super) fn read(&mut self, mut data: &[u8]) -> Result<usize, Status> {
        while !data.is_empty() {
            if self.known < PREFIX {
                let (prefix, more) = data.split_at(data.len().min(PREFIX - self.known));
                self.prefix[self.known..][..prefix.len()].copy_from_slice(prefix);
                self.known += prefix.len();
                data = more;
                if self.known < PREFIX {
                    break;
                }
                self.rest = self.length();
                if self.rest > self.longest {
                    return Err(too_large(self.rejections));
                }
            }
            let message = self.rest.min(data.len());
            data = &data[message..];
            self.rest -= message;
            if self.rest == 0 {
                self.known = 0;
                self.is_any = true;
            }
        }
        Ok(self.rest)
    }

    /// Returns the length of the current or the last message if it is compressed.
    pub(super) fn compressed(&self) -> Option<usize> {
        (self.prefix[0] == 1).then(|| self.length())
    }

    /// Whether a message is complete and none has begun after it.
    pub(super) fn is_between(&self) -> bool {
        self.is_any && self.known == 0
    }

    /// Returns the length in the prefix, in bytes.
    fn length(&self) -> usize {
        let [_, length @ ..] = self.prefix;
        u32::from_be_bytes(length) as usize
    }
}

/// Returns the error for a message that is too long, as sent or when uncompressed.
pub(super) fn too_large(rejections: &Rejections) -> Status {
    ReachedLimit::MessageBytes.record();
    rejections.message_too_large()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rejections::SAMPLE;

    #[test]
    fn messages_are_found_in_pieces_of_any_size() {
        let body = [&[0, 0, 0, 0, 2, 7, 7][..], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 1, 7]].concat();
        // For each number of received bytes: how many bytes of the message are missing, and whether
        // the position is between messages.
        let expected = [
            (0, false),
            (0, false),
            (0, false),
            (0, false),
            (2, false),
            (1, false),
            (0, true),
            (0, false),
            (0, false),
            (0, false),
            (0, false),
            (0, true),
            (0, false),
            (0, false),
            (0, false),
            (0, false),
            (1, false),
            (0, true),
        ];
        for step in 1..=body.len() {
            let mut messages = Messages::new(2, &SAMPLE);
            let mut came = 0;
            for piece in body.chunks(step) {
                came += piece.len();
                let rest = messages.read(piece).unwrap();
                assert_eq!((rest, messages.is_between()), expected[came - 1], "{step} {came}");
            }
        }
        let rejected = Messages::new(2, &SAMPLE).read(&[1, 0, 0, 0, 3]).unwrap_err();
        assert_eq!(rejected.code(), tonic::Code::ResourceExhausted);
    }
}
