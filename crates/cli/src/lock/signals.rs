//! Forwards the signals that would end this process to the command.

use std::{fs, future::poll_fn, io, task::Poll};

use rustix::{
    process::{Signal, getpgrp},
    termios::tcgetpgrp,
};
use tokio::signal::unix::{self, SignalKind, signal};

/// The forwarded signals. Without a handler they would end this process and leave the command
/// running.
const WATCHED: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// The handlers of the signals.
#[derive(Debug)]
pub(super) struct ForwardedSignals(Vec<(Signal, unix::Signal)>);

impl ForwardedSignals {
    /// Installs the handlers.
    pub(super) fn listen() -> io::Result<ForwardedSignals> {
        // A signal that is ignored, as under `nohup`, must stay ignored for the command too, which
        // a handler would undo.
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let heard = WATCHED.into_iter().filter(|heard| ignored >> (heard.as_raw() - 1) & 1 == 0);
        let listen = |heard: Signal| {
            signal(SignalKind::from_raw(heard.as_raw())).map(|listener| (heard, listener))
        };
        heard.map(listen).collect::<io::Result<_>>().map(ForwardedSignals)
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let mut came = self.0.iter_mut();
            match came.find_map(|(signal, listener)| {
                listener.poll_recv(context).is_ready().then_some(*signal)
            }) {
                Some(signal) => Poll::Ready(signal),
                None => Poll::Pending,
            }
        })
        .await
    }
}

/// Whether a signal came from the keyboard of a terminal, which also sends it to the command. Many
/// programs abort their cleanup if the signal arrives twice.
pub(super) fn reaches_all(signal: Signal) -> bool {
    let is_foreground = || {
        let terminal = fs::File::open("/dev/tty").map_err(drop);
        terminal.and_then(|terminal| tcgetpgrp(terminal).map_err(drop)) == Ok(getpgrp())
    };
    [Signal::INT, Signal::QUIT].contains(&signal) && is_foreground()
}

/// Parses the set of ignored signals, in which bit 0 is signal 1; empty if it is unknown.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn ignored_signals_are_read_from_the_process_status() {
        let status = "Name:\ttollgate\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!(ignored(""), 0);
        assert_eq!(ignored("SigIgn:\tx"), 0);
    }
}
