//! A running `tollgate lock`.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{ChildStdout, Stdio, id},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::support::process::{Process, tollgate};

/// Longer than a busy machine needs.
pub const LONG: Duration = Duration::from_secs(60);
/// Runs until a file `end` exists, at most two minutes. Each test ends it by that file or by a
/// signal.
pub const WORK: &str = "echo started
    i=0; while [ ! -e end ] && [ $i -lt 2400 ]; do sleep 0.05; i=$((i+1)); done";

/// A folder that is removed after its test. Commands run in it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let path = env::temp_dir().join(format!("tollgate-test-lock-{}-{number}", id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Starts `tollgate lock` with a shell script as its command.
    pub fn start(&self, server: &str, arguments: &str, script: &str) -> Running {
        let mut command = tollgate(&["lock", "--server", server]);
        command.args(arguments.split_whitespace()).args(["--", "sh", "-c", script]);
        command.current_dir(&self.0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Running { process: Process(child), stdout }
    }

    pub fn end(&self) {
        fs::write(self.0.join("end"), "").unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Also ends commands that a failed test left running.
        self.end();
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Running {
    pub process: Process,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Returns the next line that the command prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn started(mut self) -> Running {
        assert_eq!(self.line(), "started");
        self
    }

    /// Returns the next line on standard error.
    pub fn said(&mut self) -> String {
        let mut line = Vec::new();
        let stderr = self.process.0.stderr.as_mut().unwrap();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            stderr.read_exact(&mut byte).unwrap();
            line.extend(byte);
        }
        String::from_utf8(line).unwrap()
    }

    /// Waits for the end. Returns the exit code, and the rest of standard output and standard
    /// error.
    pub async fn end(mut self) -> (Option<i32>, String, String) {
        let code = self.process.end(LONG).await;
        let (mut printed, mut said) = (String::new(), String::new());
        self.stdout.read_to_string(&mut printed).unwrap();
        self.process.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (code, printed, said)
    }
}
