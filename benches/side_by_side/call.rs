//! Calls that are encoded once; only the number in their names changes from call to call.

use std::fmt::{self, Write};

use bytes::{Bytes, BytesMut};
use prost::Message;

/// Placeholder of the call number in a message.
pub(crate) const NUMBER: &str = "############";
/// gRPC prefix of a message: compression flag and length.
const PREFIX: usize = 5;

/// One unary gRPC call.
pub(crate) struct Call {
    /// `/package.Service/Method`
    pub(crate) path: &'static str,
    /// The message with its prefix.
    body: Vec<u8>,
    /// Offsets of the number.
    places: Vec<usize>,
    /// Whether a reply is as expected; all others are counted as wrong.
    accepts: fn(&[u8]) -> bool,
}

impl Call {
    /// Creates a call of `path`; the call number replaces each [`NUMBER`] in `message`.
    pub(crate) fn new(
        path: &'static str,
        message: &impl Message,
        accepts: fn(&[u8]) -> bool,
    ) -> Call {
        let mut body = vec![0; PREFIX];
        message.encode(&mut body).expect("a vector grows");
        let length = (body.len() - PREFIX) as u32;
        body[1..PREFIX].copy_from_slice(&length.to_be_bytes());
        let windows = body.windows(NUMBER.len()).enumerate();
        let places = windows.filter(|(_, window)| *window == NUMBER.as_bytes());
        let places = places.map(|(at, _)| at).collect();
        Call { path, body, places, accepts }
    }

    /// Returns the same call with another expected reply.
    pub(crate) fn expecting(self, accepts: fn(&[u8]) -> bool) -> Call {
        Call { accepts, ..self }
    }

    /// Returns the length of the message in bytes.
    pub(crate) fn length(&self) -> usize {
        self.body.len() - PREFIX
    }

    /// Returns the request body for a call number.
    pub(crate) fn body(&self, number: u64) -> Bytes {
        let mut body = BytesMut::from(self.body.as_slice());
        for at in &self.places {
            write_digits(&mut body[*at..*at + NUMBER.len()], number);
        }
        body.freeze()
    }

    /// Whether a received message is the expected reply.
    pub(crate) fn accepts(&self, received: &[u8]) -> bool {
        received.get(PREFIX..).is_some_and(self.accepts)
    }
}

fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Accepts a reply whose first field is field 1, an enum or a bool, with this value.
pub(crate) fn first_is<const VALUE: u8>(message: &[u8]) -> bool {
    message.starts_with(&[1 << 3, VALUE])
}

/// Accepts a reply to a batch: `COUNT` results, each with a response that [`first_is`] accepts.
pub(crate) fn all_are<const VALUE: u8, const COUNT: usize>(mut message: &[u8]) -> bool {
    for _ in 0..COUNT {
        let Some((result, rest)) = field_1(message) else { return false };
        let response = field_1(result).map(|(response, _)| response);
        if !response.is_some_and(first_is::<VALUE>) {
            return false;
        }
        message = rest;
    }
    message.is_empty()
}

/// Splits a message after its first field, which must be a field 1 with a length.
fn field_1(mut message: &[u8]) -> Option<(&[u8], &[u8])> {
    message = message.strip_prefix(&[1 << 3 | 2])?;
    let length = prost::encoding::decode_varint(&mut message).ok()?;
    message.split_at_checked(usize::try_from(length).ok()?)
}

/// Returns the start of an unexpected reply in hexadecimal, short enough to read.
pub(crate) fn hexadecimal(received: &[u8]) -> String {
    received.iter().take(48).fold(String::new(), |mut text, byte| {
        let _: fmt::Result = write!(text, "{byte:02x}");
        text
    })
}

/// Work that each caller of a load repeats.
pub(crate) struct Load {
    /// Calls in sequence, all with the same number.
    pub(crate) calls: Vec<Call>,
    /// Upper bound of the numbers, exclusive; they repeat from 0.
    pub(crate) numbers: u64,
}

impl Load {
    /// Returns a load of one call.
    pub(crate) fn of(call: Call, numbers: u64) -> Load {
        Load { calls: vec![call], numbers }
    }
}
