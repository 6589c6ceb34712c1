//! The `tollgate` command.

use std::process::ExitCode;

use tollgate::{cli, server::allocator::Allocator};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    cli::main()
}
