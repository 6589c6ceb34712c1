//! Callers of two namespaces on one server, through real clients. Each caller gets exactly the
//! bytes that it would get alone. A page token or cursor of one namespace is refused in the other.

use std::time::Duration;

use pb::{PoolEventKind, TaskState};
use prost::Message;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tokio::time::timeout;
use tollgate::server::Rules;
use tollgate_client::pb;
use tonic::{
    Code, Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::support::{
    access::{Call, Token, calls},
    queue::{batch, queued},
    rates::configured,
    world::{World, admit},
};

const PATIENCE: Duration = Duration::from_secs(60);
const STEPS: usize = 1500;
const NAMESPACES: [&str; 3] = ["", "acme", "beta"];
const NAMES: [&str; 3] = ["ar:1", "login", "a b"];

/// Rules of all namespaces, for a server with or without callers.
const RULES: &str = r#"
[[policy]]
name = "login"
namespace = "*"
limit = [{ max = 3, window = "1m" }]
[[sequence]]
match = "login"
namespace = "*"
layout = "L-{yyyyMMdd}-{n:06}"
"#;

/// Returns a server with a caller for each namespace.
async fn shared(redis: bool) -> (World, Vec<String>) {
    let mut config = RULES.to_owned();
    let mut bearers = Vec::new();
    for namespace in NAMESPACES {
        let token = Token::new();
        config += &format!(
            "[[caller]]\nname = \"caller-of-{namespace}\"\ntoken_sha256 = [\"{}\"]\n\
             allow = [\"use\", \"read\", \"manage\"]\nnamespace = \"{namespace}\"\n",
            token.digest
        );
        bearers.push(token.bearer());
    }
    (World::with_rules(redis, configured(&config)).await, bearers)
}

async fn channel(world: &World) -> Channel {
    Channel::from_shared(world.address.clone()).unwrap().connect().await.unwrap()
}

/// Returns the comparable part of an answer. Left out are the counters of a server, which belong to
/// the default namespace, and the flag `cached`, which depends on a hash of all names. Another test
/// compares page tokens.
fn seen(call: &Call, answer: Result<Vec<u8>, Status>) -> Result<Vec<u8>, (Code, String, Vec<u8>)> {
    let mut answer = answer.map_err(|status| {
        (status.code(), status.message().to_owned(), status.details().to_vec())
    })?;
    match call.method {
        "GetSequence" => {
            let mut of = pb::GetSequenceResponse::decode(&*answer).unwrap();
            (of.server_values, of.server_script_calls) = (0, 0);
            answer = of.encode_to_vec();
        }
        "CheckRate" => {
            let mut of = pb::CheckRateResponse::decode(&*answer).unwrap();
            of.cached = false;
            answer = of.encode_to_vec();
        }
        "CheckRates" => {
            let mut of = pb::CheckRatesResponse::decode(&*answer).unwrap();
            of.results.iter_mut().for_each(|result| result.cached = false);
            answer = of.encode_to_vec();
        }
        "ListPools" => {
            let mut of = pb::ListPoolsResponse::decode(&*answer).unwrap();
            // On Redis, pools are listed in the order in which the index last registered them,
            // which happens about once a minute of real time.
            of.pools.sort_by(|one, other| one.pool.cmp(&other.pool));
            answer = of.encode_to_vec();
        }
        _ => {}
    }
    Ok(answer)
}

async fn alone_or_not(redis: bool) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (world, bearers) = shared(redis).await;
    let together = channel(&world).await;
    let mut alone = Vec::new();
    for _ in NAMESPACES {
        let world = World::with_rules(redis, configured(RULES)).await;
        let channel = channel(&world).await;
        alone.push((world, channel));
    }
    for step in 0..STEPS {
        let turn = random.random_range(0..NAMESPACES.len());
        let by = Duration::from_millis([0, 0, 0, 30, 400, 7000][random.random_range(0..6)]);
        for world in alone.iter().map(|(world, _)| world).chain([&world]) {
            world.advance(by).await;
        }
        let name = *NAMES.choose(&mut random).unwrap();
        let call = calls(name).choose(&mut random).unwrap().clone();
        // A caller of one namespace may not call AdminService. How far a page of a scan gets
        // depends on other tests.
        if call.method.starts_with("Watch") || call.is_of_server() || call.is_walk() {
            continue;
        }
        let metadata = [("authorization", &*bearers[turn])];
        let on_shared = seen(&call, call.make(&together, &metadata).await);
        let on_own = seen(&call, call.make(&alone[turn].1, &[]).await);
        let context = format!("seed {seed}, step {step}, {:?}, {name}", NAMESPACES[turn]);
        assert_eq!(on_shared, on_own, "{context}: {}", call.path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_get_the_answers_that_they_would_get_alone_embedded() {
    alone_or_not(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_get_the_answers_that_they_would_get_alone_redis() {
    alone_or_not(true).await;
}

/// An interceptor that adds a token to each call.
#[derive(Clone)]
struct Bearer(String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.parse().unwrap());
        request.set_timeout(PATIENCE);
        Ok(request)
    }
}

type Client =
    pb::admission_service_client::AdmissionServiceClient<InterceptedService<Channel, Bearer>>;

async fn clients(redis: bool) -> (World, Vec<Client>) {
    let (world, bearers) = shared(redis).await;
    let channel = channel(&world).await;
    let client = |bearer| Client::new(InterceptedService::new(channel.clone(), Bearer(bearer)));
    (world, bearers.into_iter().map(client).collect())
}

/// Fails unless each client can use only its own page token or cursor.
async fn only_its_owner<F>(
    clients: &[Client],
    tokens: &[String],
    accepts: impl Fn(Client, String) -> F,
) where
    F: Future<Output = Result<(), Status>>,
{
    for (owner, token) in tokens.iter().enumerate() {
        assert!(!token.is_empty());
        for (caller, client) in clients.iter().enumerate() {
            let answer = accepts(client.clone(), token.clone()).await;
            let context = format!("{:?} of {:?}", NAMESPACES[caller], NAMESPACES[owner]);
            match answer {
                Ok(()) => assert_eq!(caller, owner, "{context}"),
                Err(status) => {
                    assert_ne!(caller, owner, "{context}: {status:?}");
                    assert_eq!(status.code(), Code::InvalidArgument, "{context}: {status:?}");
                }
            }
        }
    }
}

async fn page_tokens_and_cursors_stay_in_their_namespace(redis: bool) {
    let (_world, mut clients) = clients(redis).await;
    let (mut pools, mut leases, mut tasks, mut cursors) = (vec![], vec![], vec![], vec![]);
    for client in &mut clients {
        for pool in ["p", "q"] {
            for device in ["d", "e"] {
                client.admit_task(admit(pool, device, "t")).await.unwrap();
            }
        }
        let more = ["1", "2"].map(|task| queued("d", task));
        client.enqueue_tasks(batch("p", more.to_vec())).await.unwrap();
        let page = client.list_pools(one_pool("")).await.unwrap().into_inner();
        assert_eq!(page.pools.len(), 1);
        pools.push(page.next_page_token);
        leases.push(client.list_leases(one_lease("")).await.unwrap().into_inner().next_page_token);
        tasks.push(client.list_tasks(one_task("")).await.unwrap().into_inner().next_page_token);
        cursors.push(first_cursor(client).await);
    }
    only_its_owner(&clients, &pools, async |mut client: Client, token: String| {
        let page = client.list_pools(one_pool(&token)).await?.into_inner();
        assert_eq!((page.pools.len(), &*page.next_page_token), (1, ""));
        Ok(())
    })
    .await;
    only_its_owner(&clients, &leases, async |mut client: Client, token: String| {
        client.list_leases(one_lease(&token)).await.map(drop)
    })
    .await;
    only_its_owner(&clients, &tasks, async |mut client: Client, token: String| {
        client.list_tasks(one_task(&token)).await.map(drop)
    })
    .await;
    only_its_owner(&clients, &cursors, async |mut client: Client, cursor: String| {
        client.watch_pool(watch(Some(cursor))).await.map(drop)
    })
    .await;
}

fn one_pool(page_token: &str) -> pb::ListPoolsRequest {
    pb::ListPoolsRequest { page_size: Some(1), page_token: page_token.into() }
}

fn one_lease(page_token: &str) -> pb::ListLeasesRequest {
    let page_token = page_token.into();
    pb::ListLeasesRequest { pool: "p".into(), page_size: Some(1), page_token }
}

fn one_task(page_token: &str) -> pb::ListTasksRequest {
    pb::ListTasksRequest {
        pool: "p".into(),
        state: TaskState::Queued.into(),
        page_size: Some(1),
        page_token: page_token.into(),
    }
}

fn watch(after: Option<String>) -> pb::WatchPoolRequest {
    pb::WatchPoolRequest { pool: "p".into(), after }
}

/// Returns the cursor of the last event of the pool `p`. Fails unless the stream has only the
/// events of its namespace: two admissions and two tasks.
async fn first_cursor(client: &mut Client) -> String {
    let mut events = client.watch_pool(watch(Some("0".into()))).await.unwrap().into_inner();
    let mut kinds = Vec::new();
    loop {
        let next = timeout(PATIENCE, events.message()).await.expect("no event came").unwrap();
        let event = next.unwrap().event.unwrap();
        kinds.push(event.kind());
        if kinds.len() == 4 {
            use PoolEventKind::{Admitted, Enqueued};
            assert_eq!(kinds, [Admitted, Admitted, Enqueued, Enqueued]);
            return event.cursor;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_tokens_and_cursors_stay_in_their_namespace_embedded() {
    page_tokens_and_cursors_stay_in_their_namespace(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn page_tokens_and_cursors_stay_in_their_namespace_redis() {
    page_tokens_and_cursors_stay_in_their_namespace(true).await;
}

/// An entry applies to the default namespace, unless it names other namespaces.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_one_namespace_reach_no_other() {
    let token = Token::new();
    let config = format!(
        "{RULES}[[policy]]\nname = \"own\"\nlimit = [{{ max = 1, window = \"1m\" }}]\n\
         [[pool]]\nmatch = \"*\"\ncapacity = 7\n\
         [[pool]]\nmatch = \"*\"\nnamespace = \"acme\"\ncapacity = 9\n\
         [[caller]]\nname = \"any\"\ntoken_sha256 = [\"{}\"]\n\
         allow = [\"use\", \"read\", \"manage\"]\nnamespace = \"*\"\n",
        token.digest
    );
    let rules: Rules = configured(&config);
    let world = World::with_rules(false, rules).await;
    let channel = channel(&world).await;
    for (namespace, capacity, policies) in
        [("", 7, &["login", "own"][..]), ("acme", 9, &["login"]), ("beta", 60, &["login"])]
    {
        let bearer = token.bearer();
        let mut metadata = vec![("authorization", &*bearer)];
        if !namespace.is_empty() {
            metadata.push(("x-tollgate-namespace", namespace));
        }
        let make = async |method: &str| {
            let call = calls("p").into_iter().find(|call| call.method == method).unwrap();
            call.make(&channel, &metadata).await.unwrap()
        };
        let pool = pb::GetPoolResponse::decode(&*make("GetPool").await).unwrap().pool.unwrap();
        assert_eq!(pool.config.unwrap().capacity, capacity, "{namespace}");
        let listed = pb::ListPoliciesResponse::decode(&*make("ListPolicies").await).unwrap();
        let names: Vec<&str> = listed.policies.iter().map(|policy| &*policy.name).collect();
        assert_eq!(names, policies, "{namespace}");
    }
}
