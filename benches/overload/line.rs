//! One HTTP/2 connection at the level of frames. Requests are bytes that were encoded once;
//! responses are read only up to their status. A full client would use more CPU than the server,
//! so that an open loop at three times the capacity would measure the client.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    io::{self, ErrorKind},
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::net::TcpStream;

use super::hpack;

/// Maximum number of open streams of a connection, until the server states its limit.
const STREAMS_MAX: usize = 100;
/// The setting with that limit.
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// Unsent bytes above which no further request is written.
const UNSENT_MAX: usize = 64 << 10;
const FRAME_HEADER: usize = 9;
/// Initial flow-control window of both sides.
const WINDOW: i64 = 65_535;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A response with this status, and its latency.
    Status(u16, Duration),
    /// The deadline passed; the client reset the stream.
    Expired,
    /// The server reset the stream.
    Reset,
}

/// A connection.
pub(crate) struct Line {
    stream: TcpStream,
    unsent: Vec<u8>,
    received: Vec<u8>,
    next: u32,
    open: HashMap<u32, Instant>,
    deadlines: BinaryHeap<Reverse<(Instant, u32)>>,
    window: i64,
    streams_max: usize,
    headers: hpack::Request,
    message: Vec<u8>,
    /// Whether the server has sent GOAWAY.
    pub(crate) is_going: bool,
}

impl Line {
    pub(crate) async fn open(address: SocketAddr, path: &str, message: &[u8]) -> io::Result<Line> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut unsent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // No dynamic table for response headers, so that each block is complete; unlimited windows.
        let mut settings = vec![0, 1, 0, 0, 0, 0, 0, 4];
        settings.extend(0x7fff_0000_u32.to_be_bytes());
        frame(&mut unsent, SETTINGS, 0, 0, &settings);
        frame(&mut unsent, WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
        let mut framed = vec![0];
        framed.extend((message.len() as u32).to_be_bytes());
        framed.extend(message);
        Ok(Line {
            stream,
            unsent,
            received: Vec::new(),
            next: 1,
            open: HashMap::new(),
            deadlines: BinaryHeap::new(),
            window: WINDOW,
            streams_max: STREAMS_MAX,
            headers: hpack::Request::new(path),
            message: framed,
            is_going: false,
        })
    }

    /// Returns the number of calls without an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.open.len()
    }

    /// Whether another call can be written now.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < self.streams_max
            && self.unsent.len() < UNSENT_MAX
            && self.window >= self.message.len() as i64
    }

    /// Writes a call with a deadline.
    pub(crate) fn call(&mut self, now: Instant, deadline: Instant) {
        let id = self.next;
        self.next += 2;
        let left = deadline.saturating_duration_since(now).as_millis().max(1);
        let block = self.headers.block(left);
        frame(&mut self.unsent, HEADERS, END_HEADERS, id, &block);
        frame(&mut self.unsent, DATA, END_STREAM, id, &self.message);
        self.window -= self.message.len() as i64;
        self.open.insert(id, now);
        self.deadlines.push(Reverse((deadline, id)));
    }

    /// Resets the calls past their deadline.
    pub(crate) fn expire(&mut self, now: Instant, mut end: impl FnMut(End)) {
        while let Some(Reverse((deadline, id))) = self.deadlines.peek().copied()
            && deadline <= now
        {
            self.deadlines.pop();
            if self.open.remove(&id).is_some() {
                frame(&mut self.unsent, RST_STREAM, 0, id, &8u32.to_be_bytes());
                end(End::Expired);
            }
        }
    }

    /// Writes unsent bytes until the socket is full.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.try_write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Completes when the socket is readable.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.stream.readable().await
    }

    /// Reads all received frames; calls `end` for each finished call.
    pub(crate) fn read(&mut self, now: Instant, mut end: impl FnMut(End)) -> io::Result<()> {
        let mut buffer = [0; 64 << 10];
        loop {
            match self.stream.try_read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.received.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let received = std::mem::take(&mut self.received);
        let mut rest = &received[..];
        while let Some(header) = rest.first_chunk::<FRAME_HEADER>() {
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            let Some(payload) = rest.get(FRAME_HEADER..FRAME_HEADER + length) else { break };
            let (kind, flags) = (header[3], header[4]);
            let id = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) & !(1 << 31);
            self.take(kind, flags, id, payload, now, &mut end);
            rest = &rest[FRAME_HEADER + length..];
        }
        self.received = rest.to_vec();
        Ok(())
    }

    fn take(
        &mut self,
        kind: u8,
        flags: u8,
        id: u32,
        payload: &[u8],
        now: Instant,
        end: &mut impl FnMut(End),
    ) {
        match kind {
            HEADERS if flags & END_STREAM != 0 => {
                if let Some(sent) = self.open.remove(&id) {
                    let status = hpack::grpc_status(payload).unwrap_or(u16::MAX);
                    end(End::Status(status, now - sent));
                }
            }
            RST_STREAM if self.open.remove(&id).is_some() => end(End::Reset),
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.as_chunks::<6>().0 {
                    let [a, b, value @ ..] = *setting;
                    if u16::from_be_bytes([a, b]) == MAX_CONCURRENT_STREAMS {
                        self.streams_max = u32::from_be_bytes(value) as usize;
                    }
                }
                frame(&mut self.unsent, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(&mut self.unsent, PING, ACK, 0, payload),
            GOAWAY => self.is_going = true,
            WINDOW_UPDATE if id == 0 => {
                let by = payload.first_chunk().map_or(0, |by| u32::from_be_bytes(*by));
                self.window += i64::from(by);
            }
            _ => {}
        }
    }
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, id: u32, payload: &[u8]) {
    bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(id.to_be_bytes());
    bytes.extend(payload);
}
