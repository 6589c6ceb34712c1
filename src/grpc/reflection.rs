//! Reflection: lets grpcurl work without .proto files.

use tonic::codec::CompressionEncoding;
use tonic_reflection::server::{
    Builder,
    v1::{ServerReflection, ServerReflectionServer},
    v1alpha,
};

use tollgate_http::MESSAGE_BYTES_MAX;

/// The compiled descriptors of all files in `proto/`.
pub(super) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Returns the service `grpc.reflection.v1.ServerReflection`.
#[allow(clippy::expect_used, reason = "the descriptors are compiled in; every start decodes them")]
pub(crate) fn v1() -> ServerReflectionServer<impl ServerReflection> {
    builder()
        .build_v1()
        .expect("the descriptors that build.rs wrote")
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .accept_compressed(CompressionEncoding::Gzip)
}

/// Returns the service `grpc.reflection.v1alpha.ServerReflection`, for older clients.
#[allow(clippy::expect_used, reason = "the descriptors are compiled in; every start decodes them")]
pub(crate) fn v1alpha() -> v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection> {
    builder()
        .build_v1alpha()
        .expect("the descriptors that build.rs wrote")
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .accept_compressed(CompressionEncoding::Gzip)
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        // The details of errors, so that grpcurl prints them as text.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}
