//! Compiles `proto/` without an installed protoc.
//!
//! Generates two sets of Rust types from the same files:
//! - `server`: every `string` is a `Bytes`, with the same wire format. A name is then a slice of
//!   the received message instead of a copy. Text that is not UTF-8 reaches our validation,
//!   which names all bad fields of a request at once. Prost would refuse the first one, without
//!   the field's name.
//! - `client`: plain types, for the commands that call a server, and for tests.
//!
//! Reflection serves the original descriptors.

use std::{env, error::Error, fs, path::PathBuf};

use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};

const PROTOS: [&str; 5] = [
    "proto/tollgate/v1/admission.proto",
    "proto/tollgate/v1/lock.proto",
    "proto/tollgate/v1/rate.proto",
    "proto/tollgate/v1/sequence.proto",
    "proto/tollgate/v1/stock.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(PROTOS)?;
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;

    let descriptors = compiler.file_descriptor_set();
    generate(descriptors.clone(), out.join("client"), true)?;
    generate(with_bytes(descriptors), out.join("server"), false)
}

fn generate(set: FileDescriptorSet, out: PathBuf, client: bool) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(&out)?;
    tonic_prost_build::configure()
        .build_client(client)
        .build_server(!client)
        .codec_path(if client { "tonic_prost::ProstCodec" } else { "crate::grpc::codec::Codec" })
        .bytes(".")
        .out_dir(out)
        .compile_fds(set)?;
    Ok(())
}

/// Changes every `string` field of the package to `bytes`.
fn with_bytes(mut set: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut set.file {
        if file.package() == "tollgate.v1" {
            file.message_type.iter_mut().for_each(strings_to_bytes);
        }
    }
    set
}

fn strings_to_bytes(message: &mut DescriptorProto) {
    for field in &mut message.field {
        if field.r#type() == Type::String {
            field.set_type(Type::Bytes);
        }
    }
    message.nested_type.iter_mut().for_each(strings_to_bytes);
}
