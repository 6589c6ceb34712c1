//! J7: a call that waits is cancelled after its grant, before its answer was written. The client
//! keeps its receive windows closed, so the server has the grant and cannot write the answer.

use prost::Message;
use tollgate_client::pb;

use super::wire::{HEADERS, Wire, data, framed, headers, reset};
use crate::support::{
    farm::eventually,
    locks::{Keeper, acquire, granted, release, waiting},
    process::{OwnRedis, Server},
    wire::Wire as Proxy,
    world::{Undated, World, admit, capacity, seconds},
};

const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
const ACQUIRE: &str = "/tollgate.v1.LockService/AcquireLock";
/// SETTINGS_INITIAL_WINDOW_SIZE 0: the server may send headers, and no data.
const CLOSED: [(u16, u32); 1] = [(4, 0)];

on_both_engines!(
    j7_a_task_whose_call_is_reset_before_its_answer_gives_its_slot_back,
    j7_a_task_whose_connection_closes_before_its_answer_gives_its_slot_back,
    j7_a_lock_whose_call_is_reset_before_its_answer_is_free,
    j7_a_lock_whose_connection_closes_before_its_answer_is_free,
    j7_a_cancelled_repeat_leaves_the_lease_of_the_first_call,
    j7_a_lease_that_a_repeat_was_answered_with_stays,
    j7_a_lease_that_was_renewed_stays,
);

/// Returns a client that cannot receive an answer.
async fn deaf(world: &World) -> Wire {
    let port = world.address.rsplit_once(':').unwrap().1.parse().unwrap();
    Wire::connect(port, &CLOSED).await
}

/// Sends a call that may wait. Returns its stream.
async fn ask(wire: &mut Wire, path: &str, message: &impl Message) -> u32 {
    let stream = wire.open();
    let timeout = [("grpc-timeout", "60S")];
    let call = [headers(stream, path, &timeout), data(stream, &framed(message), true)];
    wire.send(&call.concat()).await;
    stream
}

/// Waits for the headers of an answer, whose message does not follow.
async fn answered(wire: &mut Wire, stream: u32) {
    wire.until(|frame| frame.kind == HEADERS && frame.stream == stream).await;
}

fn patient_admit(device: &str) -> pb::AdmitTaskRequest {
    pb::AdmitTaskRequest { max_wait: Some(seconds(30.0)), ..admit("p", device, "t") }
}

/// Makes a task wait for the only slot of the pool, and gives it the slot.
async fn granted_task(world: &World, wire: &mut Wire) -> u32 {
    world.configure(capacity("p", 1)).await;
    world.admit("p", "first", "t").await;
    let stream = ask(wire, ADMIT, &patient_admit("second")).await;
    eventually("the call waits", async || world.pool("p").await.waiters == 1).await;
    world.complete("p", "first", "t").await;
    answered(wire, stream).await;
    assert_eq!(world.in_use("p").await, 1);
    stream
}

/// Does the same with a lock.
async fn granted_lock(world: &World, wire: &mut Wire) -> u32 {
    let keeper = Keeper::from_world(world);
    keeper.acquired("l", "first").await;
    let stream = ask(wire, ACQUIRE, &waiting(30.0, acquire("l", "second"))).await;
    keeper.waiters("l", 1).await;
    assert!(keeper.released(release("l", "first")).await);
    answered(wire, stream).await;
    assert!(keeper.get("l").await.held);
    stream
}

/// The slot and the lock are free for others.
async fn is_free(world: &World) -> bool {
    let lock = Keeper::from_world(world).get("l").await;
    !lock.held && world.in_use("p").await == 0
}

async fn j7_a_task_whose_call_is_reset_before_its_answer_gives_its_slot_back(world: World) {
    let mut wire = deaf(&world).await;
    let stream = granted_task(&world, &mut wire).await;
    wire.send(&reset(stream)).await;
    eventually("the slot is free", async || is_free(&world).await).await;
    assert!(world.admit("p", "third", "t").await.lease.is_some());
    // The task itself is admitted again, too, as soon as there is a slot.
    world.complete("p", "third", "t").await;
    let again = world.admit("p", "second", "t").await;
    assert!(again.lease.is_some() && !again.replayed, "{again:?}");
}

async fn j7_a_task_whose_connection_closes_before_its_answer_gives_its_slot_back(world: World) {
    let mut wire = deaf(&world).await;
    granted_task(&world, &mut wire).await;
    drop(wire);
    eventually("the slot is free", async || is_free(&world).await).await;
}

async fn j7_a_lock_whose_call_is_reset_before_its_answer_is_free(world: World) {
    let mut wire = deaf(&world).await;
    let stream = granted_lock(&world, &mut wire).await;
    wire.send(&reset(stream)).await;
    eventually("the lock is free", async || is_free(&world).await).await;
    Keeper::from_world(&world).acquired("l", "third").await;
}

async fn j7_a_lock_whose_connection_closes_before_its_answer_is_free(world: World) {
    let mut wire = deaf(&world).await;
    granted_lock(&world, &mut wire).await;
    drop(wire);
    eventually("the lock is free", async || is_free(&world).await).await;
}

/// Waits until the server has revoked what earlier resets require: the lease of a further call is
/// revoked after theirs.
async fn taken_back(world: &World) {
    let mut wire = deaf(world).await;
    let keeper = Keeper::from_world(world);
    keeper.acquired("last", "first").await;
    let stream = ask(&mut wire, ACQUIRE, &waiting(30.0, acquire("last", "second"))).await;
    keeper.waiters("last", 1).await;
    assert!(keeper.released(release("last", "first")).await);
    answered(&mut wire, stream).await;
    wire.send(&reset(stream)).await;
    eventually("it is given back", async || !keeper.get("last").await.held).await;
}

async fn j7_a_cancelled_repeat_leaves_the_lease_of_the_first_call(world: World) {
    let (keeper, mut wire) = (Keeper::from_world(&world), deaf(&world).await);
    let lease = world.admit("p", "d", "t").await.lease;
    let lock = keeper.acquired("l", "d").await;
    let task = ask(&mut wire, ADMIT, &patient_admit("d")).await;
    answered(&mut wire, task).await;
    let asked = ask(&mut wire, ACQUIRE, &waiting(30.0, acquire("l", "d"))).await;
    answered(&mut wire, asked).await;
    wire.send(&[reset(task), reset(asked)].concat()).await;
    taken_back(&world).await;
    let repeat = world.admit("p", "d", "t").await;
    assert!(repeat.replayed && repeat.lease.undated() == lease.undated(), "{repeat:?}");
    let repeat = keeper.ask(acquire("l", "d")).await;
    assert!(repeat.replayed && granted(&repeat).undated() == lock.undated(), "{repeat:?}");
}

async fn j7_a_lease_that_a_repeat_was_answered_with_stays(world: World) {
    let (keeper, mut wire) = (Keeper::from_world(&world), deaf(&world).await);
    let task = granted_task(&world, &mut wire).await;
    let lock = granted_lock(&world, &mut wire).await;
    // The caller asks again over another connection, and is answered.
    let lease = world.admit("p", "second", "t").await;
    let locked = keeper.ask(acquire("l", "second")).await;
    assert!(lease.replayed && locked.replayed, "{lease:?}, {locked:?}");
    wire.send(&[reset(task), reset(lock)].concat()).await;
    taken_back(&world).await;
    let repeat = world.admit("p", "second", "t").await;
    assert!(repeat.replayed && repeat.lease.undated() == lease.lease.undated(), "{repeat:?}");
    let repeat = keeper.ask(acquire("l", "second")).await;
    assert!(repeat.replayed && repeat.lease.undated() == locked.lease.undated(), "{repeat:?}");
}

async fn j7_a_lease_that_was_renewed_stays(world: World) {
    let (keeper, mut wire) = (Keeper::from_world(&world), deaf(&world).await);
    let task = granted_task(&world, &mut wire).await;
    let lock = granted_lock(&world, &mut wire).await;
    assert!(world.renew("p", "second", "t").await.lease.is_some());
    assert!(keeper.renewed(crate::support::locks::renew("l", "second")).await.is_some());
    wire.send(&[reset(task), reset(lock)].concat()).await;
    taken_back(&world).await;
    assert_eq!(world.in_use("p").await, 1);
    assert!(keeper.get("l").await.held);
}

/// Redis has executed the grants, and its answers have not arrived yet when the calls are
/// cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn j7_a_grant_in_flight_when_its_call_is_cancelled_is_revoked() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let proxy = Proxy::to(redis.port).await;
    let server = Server::start(&["--engine", &format!("redis://127.0.0.1:{}", proxy.port)]).await;
    let (client, keeper) = (server.client().await, Keeper::to(&server).await);
    let mut wire = Wire::connect(server.port, &[]).await;
    // Redis knows the scripts from here on. Only a call that may wait uses the lock's own script.
    client.clone().admit_task(admit("other", "d", "t")).await.unwrap();
    keeper.ask(waiting(30.0, acquire("other", "d"))).await;
    proxy.hold(true);
    let task = ask(&mut wire, ADMIT, &patient_admit("d")).await;
    let lock = ask(&mut wire, ACQUIRE, &waiting(30.0, acquire("l", "d"))).await;
    let exists = async |key: &str| {
        let count = redis.command(&["EXISTS", key]).await.unwrap();
        count == ::redis::Value::Int(1)
    };
    eventually("Redis has granted both", async || {
        exists("tollgate:{admission:p}:leases").await && exists("tollgate:{lock:l}:lock").await
    })
    .await;
    wire.send(&[reset(task), reset(lock)].concat()).await;
    // The server has processed the resets when it answers a PING behind them.
    wire.send(&super::wire::frame(super::wire::PING, 0, 0, &[7; 8])).await;
    wire.until(|frame| frame.kind == super::wire::PING && frame.payload == [7; 8]).await;
    proxy.hold(false);
    eventually("both are free", async || {
        let request = pb::GetPoolRequest { pool: "p".into() };
        let pool = client.clone().get_pool(request).await.unwrap().into_inner().pool.unwrap();
        pool.usage.unwrap().in_use == 0 && !keeper.get("l").await.held
    })
    .await;
}
