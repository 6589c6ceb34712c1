//! Messages that are compressed with gzip.
//!
//! A member of gzip ends with the length of its content. A message is gathered, permits for
//! that length are reserved, and nothing beyond it is inflated. Inflating as data comes would
//! reserve step by step: calls that each have a part could wait for each other.

use std::{io::Read, mem};

use bytes::BytesMut;
use flate2::bufread::GzDecoder;
use hyper::body::Bytes;
use tonic::Status;

use super::{super::status, PREFIX, messages::too_large};

/// How much shorter gzip makes data at most: two bits stand for up to 258 bytes.
const RATIO_MAX: usize = 258 * 8 / 2;

/// The data of a request whose messages may be compressed.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    data: BytesMut,
    /// Whether permits for the content of the first message are reserved.
    is_reserved: bool,
}

/// The next step with gathered data.
#[derive(Debug)]
pub(super) enum Next {
    /// The message is not complete.
    Read,
    /// Reserve permits for so many bytes of content, then ask again.
    Reserve(usize),
    /// A message with its prefix, uncompressed.
    Message(Bytes),
}

impl Gathered {
    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Appends data that came.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.data.extend_from_slice(data);
    }

    /// Returns all data as it came.
    pub(super) fn take(&mut self) -> Bytes {
        self.data.split().freeze()
    }

    /// Takes the next message of at most `longest` bytes.
    pub(super) fn next(&mut self, longest: usize) -> Result<Next, Status> {
        let Some([flag, length @ ..]) = self.data.first_chunk::<PREFIX>() else {
            return Ok(Next::Read);
        };
        let (is_compressed, length) = (*flag == 1, u32::from_be_bytes(*length) as usize);
        let end = PREFIX + length;
        if self.data.len() < end {
            return Ok(Next::Read);
        }
        if !is_compressed {
            return Ok(Next::Message(self.data.split_to(end).freeze()));
        }
        let content = content_length(&self.data[PREFIX..end])?;
        if content as usize > longest {
            return Err(too_large());
        }
        if !mem::replace(&mut self.is_reserved, true) {
            return Ok(Next::Reserve(content as usize));
        }
        self.is_reserved = false;
        let message = self.data.split_to(end);
        inflate(&message[PREFIX..], content).map(Next::Message)
    }
}

/// Returns the length of a member's content, as its end states it. Fails if no content of that
/// length could be so short.
fn content_length(member: &[u8]) -> Result<u32, Status> {
    let length = member.last_chunk().map(|length| u32::from_le_bytes(*length));
    length
        .filter(|length| *length as usize / RATIO_MAX <= member.len())
        .ok_or_else(status::not_gzip)
}

/// Returns the content of a member as an uncompressed message with its prefix. Fails if the
/// content has another length, or if more data follows the member.
fn inflate(member: &[u8], length: u32) -> Result<Bytes, Status> {
    let mut message = Vec::with_capacity(PREFIX + length as usize);
    message.push(0);
    message.extend_from_slice(&length.to_be_bytes());
    let mut decoder = GzDecoder::new(member);
    // A longer content shows in its next byte.
    let read = (&mut decoder).take(u64::from(length) + 1).read_to_end(&mut message);
    let is_sound = read.is_ok_and(|read| read == length as usize);
    if !is_sound || !decoder.into_inner().is_empty() {
        return Err(status::not_gzip());
    }
    Ok(message.into())
}
