//! Processes that a benchmark starts and ends.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// A process that is killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a process; panics with its name if that fails.
    pub(crate) fn start(command: &mut Command) -> Process {
        let name = command.get_program().to_owned();
        let child = command.spawn();
        Process(child.unwrap_or_else(|error| panic!("cannot start {}: {error}", name.display())))
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Resident memory in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Whether the process is running.
    #[allow(dead_code, reason = "not every benchmark asks")]
    pub(crate) fn runs(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|exit| exit.is_none())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a Redis without persistence.
#[allow(dead_code, reason = "not every benchmark starts one without arguments")]
pub(crate) fn redis(port: u16) -> Process {
    redis_with(port, &[])
}

/// Does the same with further arguments.
pub(crate) fn redis_with(port: u16, arguments: &[&str]) -> Process {
    Process::start(
        Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .args(arguments)
            .stdout(Stdio::null()),
    )
}

/// Starts a server on a free port and returns its URL; `arguments` are those of `tollgate serve`.
#[allow(dead_code, reason = "not every benchmark measures this build only")]
pub(crate) fn serve<'a>(arguments: impl IntoIterator<Item = &'a str>) -> (Process, String) {
    serve_by(Path::new(env!("CARGO_BIN_EXE_tollgate")), arguments)
}

/// Does the same with another build of the program.
pub(crate) fn serve_by<'a>(
    program: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> (Process, String) {
    let mut server = Process::start(
        Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped()),
    );
    let lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = { lines }.find(|line| line.starts_with("Listening on")).expect("it serves");
    let port = line.trim_end_matches(". Try:").rsplit_once(':').unwrap().1;
    (server, format!("http://127.0.0.1:{port}"))
}
