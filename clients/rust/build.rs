//! Generates the messages and the client stubs from `proto/`, without an installed protoc. In the
//! repository it is a link to the folder at the top; a package contains the files.

use std::{error::Error, fs};

const PROTO: &str = "proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let mut files = Vec::new();
    for entry in fs::read_dir(format!("{PROTO}/tollgate/v1"))? {
        files.push(entry?.path());
    }
    files.sort();
    let mut compiler = protox::Compiler::new([PROTO])?;
    compiler.include_source_info(true).include_imports(true).open_files(files)?;
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
