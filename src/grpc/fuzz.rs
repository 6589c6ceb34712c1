//! Fuzz targets of requests. A request passes its decoder, its handler, an embedded engine and the
//! encoder of its response.

use std::{cell::RefCell, fmt, future::Future, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tonic::{Request, Response, Status};

use super::{
    AdmissionHandlers, LockHandlers, RateHandlers, SequenceHandlers, StockHandlers, codec,
    elements,
    pb::{
        self, admission_service_server::AdmissionService, lock_service_server::LockService,
        rate_service_server::RateService, sequence_service_server::SequenceService,
        stock_service_server::StockService,
    },
    scope::Scope,
};
use tollgate_core::{names::Namespace, time::Clock};
use tollgate_engine::{Engine, embedded::Embedded};

/// Requests that one engine decides, so that memory does not grow with the number of inputs.
const REQUESTS_MAX: usize = 4_096;
/// How often a call is polled before it is dropped, as by a caller that goes away.
const POLLS_MAX: usize = 4;

/// A server without connections.
struct FuzzWorld {
    runtime: Runtime,
    admission: AdmissionHandlers,
    lock: LockHandlers,
    rate: RateHandlers,
    sequence: SequenceHandlers,
    stock: StockHandlers,
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
        let world = FuzzWorld {
            runtime: Builder::new_current_thread().enable_time().build().ok()?,
            admission: AdmissionHandlers::new(engine.clone(), Arc::default()),
            lock: LockHandlers::new(engine.clone()),
            rate: RateHandlers::new(engine.clone(), Arc::default()),
            sequence: SequenceHandlers::new(engine.clone(), Arc::default()),
            stock: StockHandlers::new(engine),
            requests: 0,
        };
        world.fill();
        Some(world)
    }

    /// Adds what listings show: two leases, a queued task, a ban.
    fn fill(&self) {
        let tasks = ["a", "b", "c"].map(|task| pb::AdmitTaskRequest {
            pool: "p".into(),
            device_id: task.into(),
            task_id: task.into(),
            ..Default::default()
        });
        for task in tasks {
            self.call(task.encode_to_vec().into(), false, |it| self.admission.admit_task(it));
        }
        let task =
            pb::QueuedTask { device_id: "q".into(), task_id: "q".into(), ..Default::default() };
        let tasks = pb::EnqueueTasksRequest { pool: "p".into(), tasks: vec![task] };
        self.call(tasks.encode_to_vec().into(), false, |it| self.admission.enqueue_tasks(it));
        let ban = pb::BanRequest { key: "k".into(), ..Default::default() };
        self.call(ban.encode_to_vec().into(), false, |it| self.rate.ban(it));
    }

    /// Runs a call, of the namespace `acme` or of the default one.
    fn call<'a, Q, A, F>(&self, message: Bytes, acme: bool, call: impl FnOnce(Request<Q>) -> F)
    where
        Q: elements::Request,
        A: Message,
        F: Future<Output = Result<Response<A>, Status>> + 'a,
    {
        let Some(request) = request_of(message, acme) else { return };
        if let Some(Ok(answer)) = self.poll(call(request)) {
            drop(answer.into_inner().encode_to_vec());
        }
    }

    /// Starts a watch and takes its first events.
    fn watch<'a, Q, A, S, F>(&self, message: Bytes, acme: bool, call: impl FnOnce(Request<Q>) -> F)
    where
        Q: elements::Request,
        A: Message,
        S: Stream<Item = Result<A, Status>> + Unpin,
        F: Future<Output = Result<Response<S>, Status>> + 'a,
    {
        let Some(request) = request_of(message, acme) else { return };
        if let Some(Ok(answer)) = self.poll(call(request)) {
            let mut events = answer.into_inner();
            while let Some(Some(Ok(event))) = self.poll(events.next()) {
                drop(event.encode_to_vec());
            }
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

/// Decodes a request.
fn request_of<Q: elements::Request>(message: Bytes, acme: bool) -> Option<Request<Q>> {
    let mut request = Request::new(codec::decode::<Q>(message).ok()?);
    if acme {
        let namespace = Namespace::parse(b"acme").ok()?;
        request.extensions_mut().insert(Scope::new("fuzz", namespace, None));
    }
    Some(request)
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

macro_rules! requests {
    ($($number:literal => $how:ident $service:ident.$method:ident),* $(,)?) => {
        /// Calls an rpc with a message. The first byte of the input selects the rpc; its highest
        /// bit selects the namespace.
        pub fn request(input: &[u8]) {
            let Some((selector, message)) = input.split_first() else { return };
            let (message, acme) = (Bytes::copy_from_slice(message), selector & 0x80 != 0);
            within(|world| match selector & 0x7f {
                $($number => world.$how(message, acme, |it| world.$service.$method(it)),)*
                _ => {}
            });
        }
    };
}

requests! {
    0 => call admission.admit_task,
    1 => call admission.complete_task,
    2 => call admission.renew_task,
    3 => call admission.get_pool,
    4 => call admission.list_pools,
    5 => call admission.list_leases,
    6 => call admission.configure_pool,
    7 => call admission.evict_task,
    8 => call admission.enqueue_tasks,
    9 => call admission.cancel_task,
    10 => call admission.list_tasks,
    11 => watch admission.watch_pool,
    12 => call lock.acquire_lock,
    13 => call lock.renew_lock,
    14 => call lock.release_lock,
    15 => call lock.get_lock,
    16 => call rate.check_rate,
    17 => call rate.check_rates,
    18 => call rate.reset_rate,
    19 => call rate.ban,
    20 => call rate.unban,
    21 => call rate.list_bans,
    22 => call rate.list_policies,
    23 => watch rate.watch_rates,
    24 => call sequence.next_sequence,
    25 => call sequence.get_sequence,
    26 => call stock.set_stock,
    27 => call stock.add_stock,
    28 => call stock.reserve_stock,
    29 => call stock.confirm_reservation,
    30 => call stock.cancel_reservation,
    31 => call stock.get_stock,
    32 => call admission.admit_tasks,
    33 => call admission.complete_tasks,
    34 => call admission.renew_tasks,
    35 => call lock.list_locks,
    36 => call sequence.list_sequences,
    37 => call stock.list_stock,
    38 => call admission.requeue_task,
    39 => call rate.get_key,
    40 => call sequence.set_sequence_floor,
}

/// Lists or watches with a page token or a cursor. The first byte of the input selects the rpc;
/// with its bit 0x40 the rest is encoded as the server encodes tokens.
pub fn token(input: &[u8]) {
    let Some((selector, token)) = input.split_first() else { return };
    let token: Bytes = match selector & 0x40 {
        0 => Bytes::copy_from_slice(token),
        _ => URL_SAFE_NO_PAD.encode(token).into(),
    };
    let (acme, pool) = (selector & 0x80 != 0, Bytes::from("p"));
    within(|world| match selector & 0x3f {
        0 => {
            let list = pb::ListPoolsRequest { page_token: token, ..Default::default() };
            world.call(list.encode_to_vec().into(), acme, |it| world.admission.list_pools(it));
        }
        1 => {
            let list = pb::ListLeasesRequest { pool, page_token: token, ..Default::default() };
            world.call(list.encode_to_vec().into(), acme, |it| world.admission.list_leases(it));
        }
        number @ 2..=5 => {
            let state = i32::from(number - 2);
            let list = pb::ListTasksRequest { pool, state, page_token: token, page_size: None };
            world.call(list.encode_to_vec().into(), acme, |it| world.admission.list_tasks(it));
        }
        6 => {
            let list = pb::ListBansRequest { page_token: token, ..Default::default() };
            world.call(list.encode_to_vec().into(), acme, |it| world.rate.list_bans(it));
        }
        7 => {
            let watch = pb::WatchPoolRequest { pool, after: Some(token) };
            world.watch(watch.encode_to_vec().into(), acme, |it| world.admission.watch_pool(it));
        }
        8 => {
            let watch = pb::WatchRatesRequest { after: Some(token), ..Default::default() };
            world.watch(watch.encode_to_vec().into(), acme, |it| world.rate.watch_rates(it));
        }
        9 => {
            let list = pb::ListLocksRequest { page_token: token, ..Default::default() };
            world.call(list.encode_to_vec().into(), acme, |it| world.lock.list_locks(it));
        }
        10 => {
            let list = pb::ListSequencesRequest { page_token: token, ..Default::default() };
            world.call(list.encode_to_vec().into(), acme, |it| world.sequence.list_sequences(it));
        }
        11 => {
            let list = pb::ListStockRequest { page_token: token, ..Default::default() };
            world.call(list.encode_to_vec().into(), acme, |it| world.stock.list_stock(it));
        }
        _ => {}
    });
}
