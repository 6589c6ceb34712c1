//! A client that writes HTTP/2 frames byte by byte. It can do what libraries prevent: keep windows
//! closed, leave messages unfinished, reset streams immediately.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::{Mutex, mpsc},
    task::AbortHandle,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(30);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const PRIORITY: u8 = 2;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
/// END_STREAM of DATA and HEADERS; ACK of SETTINGS and PING.
const END: u8 = 1;
const END_HEADERS: u8 = 4;

/// A received frame.
#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether the frame ends its stream, normally or by RST_STREAM.
    pub fn ends(&self) -> bool {
        self.kind == RST_STREAM || self.kind <= HEADERS && self.flags & END != 0
    }
}

type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// An HTTP/2 connection. A task reads its frames, and answers SETTINGS and PING.
pub struct Wire {
    write: Arc<Mutex<Writer>>,
    frames: mpsc::UnboundedReceiver<Frame>,
    reads: Arc<AtomicBool>,
    next: u32,
    hears: AbortHandle,
}

impl Drop for Wire {
    /// Closes the connection.
    fn drop(&mut self) {
        self.hears.abort();
    }
}

impl Wire {
    /// Connects with these SETTINGS, and opens the receive window of the connection to its maximum.
    pub async fn connect(port: u16, settings: &[(u16, u32)]) -> Wire {
        Wire::over(TcpStream::connect(("127.0.0.1", port)).await.unwrap(), settings).await
    }

    /// Does the same over an existing connection.
    pub async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        settings: &[(u16, u32)],
    ) -> Wire {
        let (read, write) = tokio::io::split(stream);
        let write: Arc<Mutex<Writer>> = Arc::new(Mutex::new(Box::new(write)));
        let (sender, frames) = mpsc::unbounded_channel();
        let reads = Arc::new(AtomicBool::new(true));
        let hears = tokio::spawn(hear(read, write.clone(), sender, reads.clone())).abort_handle();
        let wire = Wire { write, frames, reads, next: 1, hears };
        let mut payload = Vec::new();
        for (key, value) in settings {
            payload.extend(key.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        let mut bytes = PREFACE.to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &payload));
        bytes.extend(window(0, (1 << 31) - 1 - 65_535));
        wire.send(&bytes).await;
        wire
    }

    /// Stops reading from the socket.
    pub fn stop_reading(&self) {
        self.reads.store(false, Ordering::SeqCst);
    }

    /// Sends bytes. Ignores a closed connection.
    pub async fn send(&self, bytes: &[u8]) {
        let _ = self.write.lock().await.write_all(bytes).await;
    }

    /// Discards the received frames. Returns whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        while self.frames.try_recv().is_ok() {}
        self.frames.is_closed()
    }

    /// Returns the number of the next stream; sends nothing.
    pub fn open(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    /// Returns how many streams were opened.
    pub fn opened(&self) -> u32 {
        self.next / 2
    }

    /// Sends a complete call. Returns the number of its stream.
    pub async fn call(&mut self, path: &str, message: &impl Message) -> u32 {
        let stream = self.open();
        let frames = [headers(stream, path, &[]), data(stream, &framed(message), true)].concat();
        self.send(&frames).await;
        stream
    }

    /// Returns the next frame that `wanted` accepts. Panics on GOAWAY.
    pub async fn until(&mut self, wanted: impl Fn(&Frame) -> bool) -> Frame {
        let found = async {
            loop {
                let frame = self.frames.recv().await.expect("the connection closed");
                assert_ne!(frame.kind, GOAWAY, "{frame:?}");
                if wanted(&frame) {
                    return frame;
                }
            }
        };
        timeout(PATIENCE, found).await.expect("the expected frame did not arrive")
    }

    /// Returns the first frame; `None` if the server closes the connection before it.
    pub async fn first(&mut self) -> Option<Frame> {
        timeout(PATIENCE, self.frames.recv()).await.expect("neither a frame nor the end")
    }

    /// Discards the received frames. Returns whether one of them ended a stream.
    pub fn has_ended(&mut self) -> bool {
        let mut has_ended = false;
        while let Ok(frame) = self.frames.try_recv() {
            has_ended |= frame.ends();
        }
        has_ended
    }

    /// Reads until all of these streams have ended. Returns their last frames.
    pub async fn ended(&mut self, mut streams: Vec<u32>) -> Vec<Frame> {
        let mut last = Vec::new();
        while !streams.is_empty() {
            let frame = self.until(Frame::ends).await;
            if streams.contains(&frame.stream) {
                streams.retain(|stream| *stream != frame.stream);
                last.push(frame);
            }
        }
        last
    }
}

async fn hear(
    mut read: impl AsyncRead + Unpin,
    write: Arc<Mutex<Writer>>,
    frames: mpsc::UnboundedSender<Frame>,
    reads: Arc<AtomicBool>,
) {
    let mut head = [0; 9];
    loop {
        while !reads.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if frames.is_closed() {
                return;
            }
        }
        if read.read_exact(&mut head).await.is_err() {
            return;
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        if read.read_exact(&mut payload).await.is_err() {
            return;
        }
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        let heard = Frame { kind: head[3], flags: head[4], stream, payload };
        if matches!(heard.kind, SETTINGS | PING) && heard.flags & END == 0 {
            let payload: &[u8] = if heard.kind == PING { &heard.payload } else { &[] };
            let answer = frame(heard.kind, END, 0, payload);
            let _ = write.lock().await.write_all(&answer).await;
        }
        if frames.send(heard).is_err() {
            return;
        }
    }
}

/// Returns the bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// HEADERS of a gRPC call. All fields but two are literals without compression.
pub fn headers(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    // `:method: POST` and `:scheme: http`, from the static table.
    let mut block = vec![0x83, 0x86];
    let content = [(":path", path), (":authority", "x"), ("content-type", "application/grpc")];
    for (name, value) in content.iter().chain(more) {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            block.push(text.len() as u8);
            block.extend(text.as_bytes());
        }
    }
    frame(HEADERS, END_HEADERS, stream, &block)
}

/// DATA in frames of at most 16 KiB. With `end` the last frame ends the stream.
pub fn data(stream: u32, bytes: &[u8], end: bool) -> Vec<u8> {
    let mut frames = Vec::new();
    let parts = bytes.chunks(16 * 1024);
    let last = parts.len() - 1;
    for (number, part) in parts.enumerate() {
        frames.extend(frame(DATA, u8::from(end && number == last), stream, part));
    }
    frames
}

/// WINDOW_UPDATE that adds `by` bytes.
pub fn window(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

/// RST_STREAM with the error CANCEL.
pub fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())
}

/// Returns a message in a gRPC frame, uncompressed.
pub fn framed(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    [&[0][..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat()
}
