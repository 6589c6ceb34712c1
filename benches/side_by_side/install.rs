//! Third-party programs: found on the PATH, or installed from their registries.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tokio::time::sleep;
use tollgate_core::time::monotonic;

/// Time limit of a build.
const BUILD: Duration = Duration::from_secs(15 * 60);
/// Default folder of Go's installer, searched after the PATH.
const GO: &str = "/usr/local/go/bin";

/// Origin of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// A crate and its version.
    Cargo(&'static str, &'static str),
    /// A Go package and its version.
    Go(&'static str),
    /// Not in a registry.
    Nowhere,
}

/// A compiler of .proto files that cargo can install.
const PROTOC: (&str, Source) = ("protox", Source::Cargo("protox", "0.10.0"));

/// Folder of installed programs.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("peers")
}

/// Returns the path of a program: on the PATH, installed earlier, or installed now.
pub(crate) async fn program(name: &str, source: Source) -> Result<PathBuf, String> {
    let ours = folder().join("bin").join(name);
    if let Some(there) = on_path(name).or_else(|| ours.exists().then(|| ours.clone())) {
        return Ok(there);
    }
    let mut build = match source {
        Source::Nowhere => {
            return Err(format!("it is in no registry; put `{name}` on the PATH to include it"));
        }
        Source::Go(package) => go_install(package)?,
        Source::Cargo(package, version) => {
            let mut build = cargo_install(package, version);
            if name == PROTOC.0 {
                build.args(["--features", "bin"]);
            } else if on_path("protoc").is_none() && env::var_os("PROTOC").is_none() {
                build.env("PROTOC", Box::pin(program(PROTOC.0, PROTOC.1)).await?);
            }
            build
        }
    };
    eprintln!("installing {name} into target/peers");
    run(name, &mut build).await?;
    ours.exists().then_some(ours).ok_or_else(|| format!("it was installed without `{name}`"))
}

/// Searches the PATH for a program.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn cargo_install(package: &str, version: &str) -> Command {
    // The cargo that builds this program.
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build.args(["install", "--locked", "--version", version, package, "--root"]).arg(folder());
    build.arg("--target-dir").arg(folder().join("build"));
    build
}

fn go_install(package: &str) -> Result<Command, String> {
    let go = on_path("go").or_else(|| Some(Path::new(GO).join("go")).filter(|go| go.is_file()));
    let mut build = Command::new(go.ok_or("needs Go")?);
    build.args(["install", package]).env("GOBIN", folder().join("bin"));
    Ok(build)
}

/// Runs a build to its end; its output goes to a log file.
async fn run(name: &str, build: &mut Command) -> Result<(), String> {
    let log = folder().join(format!("{name}.log"));
    let said = |what: &dyn std::fmt::Display| format!("{what}; see target/peers/{name}.log");
    fs::create_dir_all(folder()).map_err(|error| said(&error))?;
    let file = File::create(&log).map_err(|error| said(&error))?;
    let copy = file.try_clone().map_err(|error| said(&error))?;
    // Outside of this package, so that its cargo configuration does not apply.
    build.current_dir(env::temp_dir()).stdin(Stdio::null()).stdout(file).stderr(copy);
    let mut child = build.spawn().map_err(|error| said(&error))?;
    let begun = monotonic();
    loop {
        match child.try_wait().map_err(|error| said(&error))? {
            Some(exit) if exit.success() => return Ok(()),
            Some(_) => return Err(said(&"it cannot be installed")),
            None if begun.elapsed() > BUILD => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(said(&format!("not built within {} min", BUILD.as_secs() / 60)));
            }
            None => sleep(Duration::from_millis(100)).await,
        }
    }
}
