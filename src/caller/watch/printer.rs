//! Standard output, which takes lines only as fast as somebody reads them.

use std::{
    io::{self, BufWriter, ErrorKind::BrokenPipe, Write},
    thread,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Lines that wait to be printed.
const LINES_MAX: usize = 1000;
/// How long a reader that does not read is waited for at the end.
const AT_THE_END: Duration = Duration::from_secs(1);

/// Prints lines, on a thread of its own: a reader that stops reading does not keep
/// Ctrl-C from being heard.
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
            // Nobody asks any more when this end was not waited for.
            let _ = end.send(print(waiting, BufWriter::new(out)));
        });
        Printer { lines, ended }
    }

    /// Has a line printed; false when nothing can be printed any more.
    pub(super) async fn print(&self, line: String) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Waits until all is printed, unless nobody reads. A reader that is gone has had
    /// enough; any other failure is an error.
    pub(super) async fn end(self) -> io::Result<()> {
        drop(self.lines);
        match timeout(AT_THE_END, self.ended).await {
            Ok(Ok(Err(error))) if error.kind() != BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// Prints all that comes, and lets go of it whenever nothing else waits.
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
    async fn lines_are_printed_and_failures_told() {
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
