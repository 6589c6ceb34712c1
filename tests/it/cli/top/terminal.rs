//! A pseudo-terminal, and a command that runs on it.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::support::process::{Process, tollgate};

/// Longer than a busy machine needs.
const LONG: Duration = Duration::from_secs(30);

pub struct Terminal {
    pub process: Process,
    keyboard: File,
    /// The command's side.
    line: OwnedFd,
    /// All output, including escape sequences.
    written: Arc<Mutex<Vec<u8>>>,
    /// Position in the output of the last text that was waited for.
    at: usize,
}

impl Terminal {
    /// Starts the command on a terminal of 100 columns and 30 rows.
    pub fn start(arguments: &[&str]) -> Terminal {
        let far = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&far).unwrap();
        unlockpt(&far).unwrap();
        let name = ptsname(&far, Vec::new()).unwrap();
        let line = open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize { ws_col: 100, ws_row: 30, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&line, size).unwrap();

        let side = || line.try_clone().unwrap();
        let mut command = tollgate(arguments);
        command.stdin(side()).stdout(side()).stderr(side());
        let process = Process(command.spawn().unwrap());
        let mut screen = File::from(far);
        let keyboard = screen.try_clone().unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let seen = written.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                seen.lock().unwrap().extend(&bytes[..count]);
            }
        });
        Terminal { process, keyboard, line, written, at: 0 }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the command draws a text again. The text has no spaces, since the command skips
    /// them.
    pub async fn shows(&mut self, text: &str) {
        let shown = async {
            loop {
                let seen = self.seen();
                if let Some(found) = seen.get(self.at..).and_then(|new| new.find(text)) {
                    self.at += found;
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let shown = tokio::time::timeout(LONG, shown).await;
        assert!(shown.is_ok(), "{text:?} is not in {:?}", self.seen());
    }

    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Waits for the end. Returns the exit code.
    pub async fn end(&mut self) -> Option<i32> {
        let code = self.process.end(LONG).await;
        // The last output may not have arrived yet.
        tokio::time::sleep(Duration::from_millis(100)).await;
        code
    }

    /// Whether the terminal reads lines and echoes input, as a shell expects.
    pub fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.line).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}
