//! Fuzz targets for requests. A request passes through its decoder, its handler, an embedded engine
//! and the encoder of its response. The targets find their RPCs in the generated table.

use std::{cell::RefCell, collections::HashMap, fmt, sync::Arc, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use prost::{
    Message,
    encoding::{bytes as length_delimited, int32},
};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use tokio::runtime::{Builder, Runtime};
use tonic::body::Body;

use super::{
    access::{Access, Service},
    pb,
    reflection::DESCRIPTORS,
    routes::Routes,
    rpcs::{self, Rpc},
    scope::{Origin, Scope},
};
use tollgate_core::{names::Namespace, time::Clock};
use tollgate_engine::{Engine, embedded::Embedded};

/// Maximum number of requests that one engine decides, so that memory does not grow with the number
/// of inputs.
const REQUESTS_MAX: usize = 4_096;
/// How often a call is polled before it is dropped, as if its caller had gone away.
const POLLS_MAX: usize = 4;
/// Flags in the third byte of an input: use the namespace `acme` instead of the default one, and
/// encode the token like the server does. The two lowest bits are the state in ListTasks.
const ACME: u8 = 0x80;
const ENCODED: u8 = 0x40;

/// A server without connections.
struct FuzzWorld {
    runtime: Runtime,
    routes: Routes,
    requests: usize,
}

impl fmt::Debug for FuzzWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FuzzWorld").field("requests", &self.requests).finish_non_exhaustive()
    }
}

thread_local! {
    static WORLD: RefCell<Option<FuzzWorld>> = const { RefCell::new(None) };
}

impl FuzzWorld {
    fn new() -> Option<FuzzWorld> {
        let engine = Arc::new(Engine::Embedded(Embedded::new(Clock::system())));
        let others = tonic::service::Routes::default();
        let routes = Routes::new(&engine, &Arc::default(), others, Access::new(None, None), None);
        let runtime = Builder::new_current_thread().enable_time().build().ok()?;
        let world = FuzzWorld { runtime, routes, requests: 0 };
        world.fill();
        Some(world)
    }

    /// Adds entries for listings to return: two leases, a queued task, a ban.
    fn fill(&self) {
        for task in ["a", "b", "c"] {
            let task = pb::AdmitTaskRequest {
                pool: "p".into(),
                device_id: task.into(),
                task_id: task.into(),
                ..Default::default()
            };
            self.call(Service::Admission, "AdmitTask", &task.encode_to_vec(), 0);
        }
        let task =
            pb::QueuedTask { device_id: "q".into(), task_id: "q".into(), ..Default::default() };
        let tasks = pb::EnqueueTasksRequest { pool: "p".into(), tasks: vec![task] };
        self.call(Service::Admission, "EnqueueTasks", &tasks.encode_to_vec(), 0);
        let ban = pb::BanRequest { key: "k".into(), ..Default::default() };
        self.call(Service::Rate, "Ban", &ban.encode_to_vec(), 0);
    }

    /// Makes a call and reads its response, or the first events of a watch.
    fn call(&self, service: Service, method: &str, message: &[u8], flags: u8) {
        let mut body = BytesMut::with_capacity(5 + message.len());
        body.put_u8(0);
        body.put_u32(message.len() as u32);
        body.put_slice(message);
        let path = format!("/{}/{method}", service.full_name());
        let body = Body::new(Full::new(body.freeze()));
        let Ok(mut request) = Request::post(path).body(body) else { return };
        if flags & ACME != 0
            && let Ok(namespace) = Namespace::parse(b"acme")
        {
            request.extensions_mut().insert(Scope::new("fuzz", namespace, None));
        }
        let answer = self.poll(self.routes.call_in_process(request, Origin::default()));
        if let Some(Ok(answer)) = answer {
            let mut body = answer.into_body();
            while let Some(Some(Ok(_))) = self.poll(body.frame()) {}
        }
    }

    /// Polls a future a few times; `None` if it waits for longer.
    fn poll<F: Future>(&self, future: F) -> Option<F::Output> {
        self.runtime.block_on(async {
            let mut future = Box::pin(future);
            for _ in 0..POLLS_MAX {
                if let Some(output) = future.as_mut().now_or_never() {
                    return Some(output);
                }
                tokio::task::yield_now().await;
            }
            None
        })
    }
}

/// Runs `call` in the world of this thread.
fn within(call: impl FnOnce(&FuzzWorld)) {
    WORLD.with_borrow_mut(|place| {
        if place.as_ref().is_some_and(|world| world.requests >= REQUESTS_MAX) {
            *place = None;
        }
        if place.is_none() {
            *place = FuzzWorld::new();
        }
        if let Some(world) = place {
            world.requests += 1;
            call(world);
        }
    });
}

/// An RPC, and the fields of its request that [`token`] sets.
struct FuzzedRpc {
    rpc: &'static Rpc,
    /// The number of the page token or the cursor; `None` if the RPC has neither.
    token: Option<u32>,
    pool: Option<u32>,
    state: Option<u32>,
}

/// The RPCs that make decisions, by the first two bytes of an input. A new RPC does not change the
/// bytes of the others, so the corpus stays valid.
static FUZZED: LazyLock<HashMap<u16, FuzzedRpc>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap_or_default();
    // AdminService needs a whole server.
    let rpcs = rpcs::all().filter(|rpc| rpc.service != Service::Admin);
    let rpcs = rpcs.filter_map(|rpc| {
        let service = pool.get_service_by_name(rpc.service.full_name())?;
        let request = service.methods().find(|method| method.name() == rpc.name)?.input();
        let number = |name: &str| Some(request.get_field_by_name(name)?.number());
        let token = number("page_token").or_else(|| number("after"));
        let fuzzed = FuzzedRpc { rpc, token, pool: number("pool"), state: state(&request) };
        Some((selector(rpc.name), fuzzed))
    });
    rpcs.collect()
});

/// Returns the number of the state that a listing filters by.
fn state(request: &MessageDescriptor) -> Option<u32> {
    let field = request.get_field_by_name("state")?;
    field.kind().as_enum().is_some().then(|| field.number())
}

/// Returns the bytes that select an RPC: the FNV-1a hash of its name, folded to 16 bits.
fn selector(name: &str) -> u16 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 16) as u16 ^ hash as u16
}

/// Splits an input into the RPC that its first two bytes select (big-endian), a byte of flags, and
/// the rest.
fn parts(input: &[u8]) -> Option<(&'static FuzzedRpc, u8, &[u8])> {
    let ([first, second, flags], rest) = input.split_first_chunk()?;
    Some((FUZZED.get(&u16::from_be_bytes([*first, *second]))?, *flags, rest))
}

/// Calls an RPC with a message.
pub fn request(input: &[u8]) {
    let Some((fuzzed, flags, message)) = parts(input) else { return };
    within(|world| world.call(fuzzed.rpc.service, fuzzed.rpc.name, message, flags));
}

/// Lists or watches with a page token or a cursor.
pub fn token(input: &[u8]) {
    let Some((FuzzedRpc { rpc, token: Some(number), pool, state }, flags, token)) = parts(input)
    else {
        return;
    };
    let token: Bytes = match flags & ENCODED {
        0 => Bytes::copy_from_slice(token),
        _ => URL_SAFE_NO_PAD.encode(token).into(),
    };
    let mut message = Vec::new();
    if let Some(pool) = pool {
        length_delimited::encode(*pool, &Bytes::from_static(b"p"), &mut message);
    }
    if let Some(state) = state {
        int32::encode(*state, &i32::from(flags & 3), &mut message);
    }
    length_delimited::encode(*number, &token, &mut message);
    within(|world| world.call(rpc.service, rpc.name, &message, flags));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_of_rpcs_differ() {
        let rpcs = rpcs::all().filter(|rpc| rpc.service != Service::Admin);
        assert_eq!(FUZZED.len(), rpcs.count());
        assert!(FUZZED.values().filter(|fuzzed| fuzzed.token.is_some()).count() >= 9);
    }
}
