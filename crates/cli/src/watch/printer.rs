//! Standard output whose reader may be slow.

use std::{
    io::{self, BufWriter, ErrorKind::BrokenPipe, Write},
    thread,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Maximum number of queued lines.
const LINES_MAX: usize = 1000;
/// How long to wait at the end for a reader that does not read.
const AT_THE_END: Duration = Duration::from_secs(1);

/// Prints lines on a separate thread, so that a reader that stops reading does not block Ctrl-C.
#[derive(Debug)]
pub(super) struct Printer {
    lines: mpsc::Sender<String>,
    ended: oneshot::Receiver<io::Result<()>>,
}

impl Printer {
    pub(super) fn start(out: impl Write + Send + 'static) -> Printer {
        let (lines, waiting) = mpsc::channel(LINES_MAX);
        let (end, ended) = oneshot::channel();
        thread::spawn(move || {
            // Fails only if nobody waits for the end.
            let _ = end.send(print(waiting, BufWriter::new(out)));
        });
        Printer { lines, ended }
    }

    /// Queues a line. Returns false if the output is closed or has failed.
    pub(super) async fn print(&self, line: String) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Waits up to one second until all lines are printed. A closed pipe is not an error, because
    /// its reader has read enough.
    pub(super) async fn end(self) -> io::Result<()> {
        drop(self.lines);
        match timeout(AT_THE_END, self.ended).await {
            Ok(Ok(Err(error))) if error.kind() != BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// Prints queued lines, and flushes the output when the queue is empty.
fn print(mut lines: mpsc::Receiver<String>, mut out: impl Write) -> io::Result<()> {
    while let Some(line) = lines.blocking_recv() {
        writeln!(out, "{line}")?;
        while let Ok(line) = lines.try_recv() {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[tokio::test]
    async fn lines_are_printed_and_failures_reported() {
        let printer = Printer::start(io::sink());
        assert!(printer.print("line".to_owned()).await);
        assert!(printer.end().await.is_ok());
        let full = File::options().write(true).open("/dev/full").expect("a full device");
        let printer = Printer::start(full);
        while printer.print("line".to_owned()).await {}
        assert!(printer.end().await.is_err());
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let printer = Printer::start(writer);
        while printer.print("line".to_owned()).await {}
        assert!(printer.end().await.is_ok());
    }
}
