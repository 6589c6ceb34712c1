//! The encoded answer to a batch.

use bytes::{Buf, BufMut};
use prost::{
    DecodeError, Message,
    encoding::{
        DecodeContext, WireType, encode_key, encode_varint, encoded_len_varint, key_len, skip_field,
    },
};

use super::super::pb;

// The field numbers that the answers to all batches have in common. They have no other fields.
const RESULTS: u32 = 1;
const RESPONSE: u32 = 1;
const ERROR: u32 = 2;
/// The expected length of an encoded result, bytes.
const RESULT_BYTES: usize = 128;

/// The results of a batch: `AdmitTasksResponse`, `CompleteTasksResponse` or `RenewTasksResponse`.
///
/// Each result is encoded as soon as it is available. In a vector, each would take 400 bytes, and
/// prost would compute the length of a nested message once for each enclosing message.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct EncodedResults(Vec<u8>);

impl EncodedResults {
    /// Creates an answer with space for this number of results.
    pub(super) fn with_capacity(results: usize) -> EncodedResults {
        EncodedResults(Vec::with_capacity(results * RESULT_BYTES))
    }

    /// Appends the answer to a request.
    pub(super) fn push(&mut self, response: &impl Message) {
        self.encode(RESPONSE, response);
    }

    /// Appends the error of a request.
    pub(super) fn push_error(&mut self, error: &pb::ItemError) {
        self.encode(ERROR, error);
    }

    /// Encodes a result that consists of this field.
    fn encode(&mut self, field: u32, value: &impl Message) {
        let length = value.encoded_len();
        let result = key_len(field) + encoded_len_varint(length as u64) + length;
        encode_key(RESULTS, WireType::LengthDelimited, &mut self.0);
        encode_varint(result as u64, &mut self.0);
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(length as u64, &mut self.0);
        value.encode_raw(&mut self.0);
    }
}

impl Message for EncodedResults {
    fn encode_raw(&self, to: &mut impl BufMut) {
        to.put_slice(&self.0);
    }

    /// Answers are never decoded here.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, from, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
