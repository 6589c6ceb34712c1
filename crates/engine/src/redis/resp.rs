//! Commands in the Redis protocol (RESP), written once: directly into the buffer of a connection.
//!
//! `redis::Cmd` copies each part into a buffer of its own first, and packs the parts afterwards. That
//! suits rare commands, which [`CommandWriter::packed`] appends.

use redis::Cmd;

const END: [u8; 2] = *b"\r\n";
/// Maximum number of bytes of a line with a type and a number.
const LINE_MAX: usize = 1 + 20 + END.len();

/// Appends commands to a buffer.
#[derive(Debug)]
pub(super) struct CommandWriter<'a> {
    buffer: &'a mut Vec<u8>,
    /// The number of commands so far.
    count: usize,
    /// The number of parts that the last command still needs.
    missing: usize,
}

impl<'a> CommandWriter<'a> {
    /// Appends to `buffer`.
    pub(super) fn new(buffer: &'a mut Vec<u8>) -> CommandWriter<'a> {
        CommandWriter { buffer, count: 0, missing: 0 }
    }

    /// Begins a command of exactly this many parts, including its name.
    pub(super) fn begin(&mut self, parts: usize) {
        debug_assert_eq!(self.missing, 0, "the previous command lacks parts");
        self.line(b'*', parts);
        self.count += 1;
        self.missing = parts;
    }

    /// Appends one part of the command.
    pub(super) fn part(&mut self, part: &[u8]) {
        debug_assert_ne!(self.missing, 0, "the command already has all its parts");
        self.missing = self.missing.saturating_sub(1);
        self.line(b'$', part.len());
        self.buffer.extend_from_slice(part);
        self.buffer.extend_from_slice(&END);
    }

    /// Appends parts of the command, in order.
    pub(super) fn parts<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]>) {
        parts.for_each(|part| self.part(part));
    }

    /// Appends a number as one part, in decimal text.
    pub(super) fn number(&mut self, number: usize) {
        self.part(number.to_string().as_bytes());
    }

    /// Appends a complete command.
    pub(super) fn packed(&mut self, command: &Cmd) {
        debug_assert_eq!(self.missing, 0, "the previous command lacks parts");
        command.write_packed_command(self.buffer);
        self.count += 1;
    }

    /// Returns the number of commands so far.
    pub(super) fn count(&self) -> usize {
        debug_assert_eq!(self.missing, 0, "the last command lacks parts");
        self.count
    }

    /// Appends a line with a type and a number.
    fn line(&mut self, kind: u8, mut number: usize) {
        // Filled from its end.
        let mut line = [0; LINE_MAX];
        let mut start = LINE_MAX - END.len();
        line[start..].copy_from_slice(&END);
        loop {
            start -= 1;
            line[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        start -= 1;
        line[start] = kind;
        self.buffer.extend_from_slice(&line[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_the_bytes_that_the_redis_client_packs() {
        let long = vec![b'x'; 12_345];
        let parts = [&b"EVALSHA"[..], b"", b"a\r\nb", b"0123456789", &long, b"\0\xff"];
        let mut expected = Vec::new();
        let mut buffer = Vec::new();
        let mut commands = CommandWriter::new(&mut buffer);
        for numbers in [&[][..], &[0, 9, 10, 99, 100, usize::MAX]] {
            let mut cmd = Cmd::new();
            cmd.arg(&parts[..]).arg(numbers);
            commands.begin(parts.len() + numbers.len());
            commands.parts(parts.into_iter());
            numbers.iter().for_each(|number| commands.number(*number));
            commands.packed(&cmd);
            expected.extend(cmd.get_packed_command().repeat(2));
        }
        assert_eq!(commands.count(), 4);
        assert_eq!(buffer, expected);
    }
}
