//! Compiles `proto/` without an installed protoc, generates the table of RPCs from the options in
//! the proto files, and reads the commit.
//!
//! In the generated messages every `string` is a `Bytes`, with the same wire format. A name is then
//! a slice of the received message instead of a copy. Text that is not UTF-8 reaches our
//! validation, which names all bad fields of a request at once. Prost would refuse the first one,
//! without the field's name. `clients/rust` has plain messages. Reflection serves the original
//! descriptors.

#[path = "src/cli/version/commit.rs"]
mod commit;
#[path = "src/grpc/rpcs"]
mod rpcs {
    pub(super) mod generate;
}

use std::{env, error::Error, fs, path::PathBuf};

use rpcs::generate::generate;

use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};

/// The contract: each file in it is compiled.
const CONTRACT: &str = "proto/tollgate/v1";
/// Envoy's service; its imports are compiled with it.
const ENVOY: &str = "proto/envoy/service/ratelimit/v3/rls.proto";

/// Names the commit of a build without a checkout.
const COMMIT: &str = "TOLLGATE_BUILD_COMMIT";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rustc-env=TOLLGATE_BUILD={}", build()?);
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(protos()?)?;
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;

    println!("cargo:rerun-if-changed=src/grpc/rpcs");
    let generated = generate(&compiler.descriptor_pool())?;
    fs::write(out.join("rpcs.rs"), generated.rpcs)?;
    fs::write(out.join("requests.rs"), generated.requests)?;
    fs::write(out.join("fast_paths.rs"), generated.fast_paths)?;
    fs::write(out.join("verbs.rs"), generated.verbs)?;

    tonic_prost_build::configure()
        .build_client(false)
        .codec_path("crate::grpc::codec::Codec")
        .bytes(".")
        // Their results are encoded while they are made.
        .extern_path(".tollgate.v1.AdmitTasksResponse", "crate::grpc::admission::EncodedResults")
        .extern_path(".tollgate.v1.CompleteTasksResponse", "crate::grpc::admission::EncodedResults")
        .extern_path(".tollgate.v1.RenewTasksResponse", "crate::grpc::admission::EncodedResults")
        .compile_fds(with_bytes(compiler.file_descriptor_set()))?;
    Ok(())
}

/// Returns the files to compile, in the order of their names.
fn protos() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = vec![PathBuf::from(ENVOY)];
    for entry in fs::read_dir(CONTRACT)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// Returns the commit and the target of the build, for `--version`.
///
/// Needs neither git nor a checkout, and is the same for the same commit. A debug build names no
/// commit: otherwise each commit would compile the crate again.
fn build() -> Result<String, Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/cli/version/commit.rs");
    println!("cargo:rerun-if-env-changed={COMMIT}");
    let target = env::var("TARGET")?;
    let commit = match env::var(COMMIT) {
        Ok(hash) => {
            let short = commit::short(&hash);
            short.ok_or_else(|| format!("{COMMIT}: expected 7 to 64 hexadecimal digits"))?
        }
        Err(_) if env::var("PROFILE")? == "debug" => "debug build".to_owned(),
        Err(_) => match commit::read(&PathBuf::from(env::var("CARGO_MANIFEST_DIR")?)) {
            Some(commit) => {
                for path in &commit.watched {
                    println!("cargo:rerun-if-changed={}", path.display());
                }
                commit.short
            }
            None => "unknown commit".to_owned(),
        },
    };
    Ok(format!("{commit}, {target}"))
}

/// Changes every `string` field of the services' packages to `bytes`.
fn with_bytes(mut set: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut set.file {
        if file.package() == "tollgate.v1" || file.package().starts_with("envoy.") {
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
