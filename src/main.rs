//! The `tollgate` command.

use std::process::ExitCode;

use tollgate::{allocator::Allocator, command};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    command::main()
}
