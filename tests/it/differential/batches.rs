//! Batches and single calls on the same random histories, on two servers with the same time. Their
//! answers must be equal, invalid requests included.

use std::time::Duration;

use pb::AdmitDecision;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_client::pb;
use tonic::Status;
use tonic_types::StatusExt;

use crate::support::{
    batches::Answer,
    queue::{batch, queued},
    rates::configured,
    world::{World, admit, capacity, complete, duration, patient, renew},
};

const STEPS: usize = 400;
const REQUESTS_MAX: usize = 60;
const POOLS: [&str; 3] = ["a", "b", "c"];

/// Without a denial cache: its answers depend on real time.
const RULES: &str = "[[pool]]\nmatch = \"*\"\ndenial_cache = \"0s\"\n";

/// One server gets batches, the other one single calls.
struct Pair {
    batches: World,
    singles: World,
    random: ChaCha8Rng,
    context: String,
}

impl Pair {
    async fn step(&mut self) {
        let by = Duration::from_millis([0, 0, 100, 400, 3000][self.random.random_range(0..5)]);
        for world in [&self.batches, &self.singles] {
            world.advance(by).await;
        }
        let number = self.random.random_range(1..=REQUESTS_MAX);
        match self.random.random_range(0..10) {
            0 => self.configure().await,
            1 => self.enqueue().await,
            2..6 => self.admit(number).await,
            6..8 => self.complete(number).await,
            _ => self.renew(number).await,
        }
    }

    async fn configure(&mut self) {
        let request = capacity(self.pool(), self.random.random_range(0..12));
        for world in [&self.batches, &self.singles] {
            world.configure(request.clone()).await;
        }
    }

    async fn enqueue(&mut self) {
        let (pool, device, task) = (self.pool(), self.device(), self.task());
        for world in [&self.batches, &self.singles] {
            let request = patient(batch(pool, vec![queued(&device, &task)]));
            let answer = world.client.clone().enqueue_tasks(request).await;
            // An invalid device is refused by both.
            assert_eq!(answer.is_err(), device.is_empty(), "{}: {answer:?}", self.context);
        }
    }

    async fn admit(&mut self, number: usize) {
        let requests: Vec<_> = (0..number)
            .map(|_| {
                let is_report = self.random.random_bool(0.2);
                let task = if is_report { String::new() } else { self.task() };
                let lease = self.random.random_bool(0.5).then(|| self.lease());
                let request = admit(self.pool(), &self.device(), &task);
                pb::AdmitTaskRequest { lease_duration: lease, ..request }
            })
            .collect();
        let answers = self.batches.admit_all(requests.clone()).await;
        let mut client = self.singles.client.clone();
        for (index, (request, answer)) in requests.into_iter().zip(answers).enumerate() {
            let single = client.admit_task(patient(request)).await.map(|it| it.into_inner());
            let is_known = answer.as_ref().is_ok_and(|it| it.decision() as i32 > 0);
            assert!(is_known || answer.is_err(), "{}: {answer:?}", self.context);
            self.agree(index, answer, single);
        }
    }

    async fn complete(&mut self, number: usize) {
        let requests: Vec<_> = (0..number)
            .map(|_| pb::CompleteTaskRequest {
                outcome: self.random.random_range(0..=3),
                fencing_token: self.random.random_bool(0.1).then_some(7),
                ..complete(self.pool(), &self.device(), &self.task())
            })
            .collect();
        let answers = self.batches.complete_all(requests.clone()).await;
        let mut client = self.singles.client.clone();
        for (index, (request, answer)) in requests.into_iter().zip(answers).enumerate() {
            let single = client.complete_task(patient(request)).await.map(|it| it.into_inner());
            self.agree(index, answer, single);
        }
    }

    async fn renew(&mut self, number: usize) {
        let requests: Vec<_> = (0..number)
            .map(|_| pb::RenewTaskRequest {
                lease_duration: self.random.random_bool(0.5).then(|| self.lease()),
                fencing_token: self.random.random_bool(0.1).then_some(7),
                ..renew(self.pool(), &self.device(), &self.task())
            })
            .collect();
        let answers = self.batches.renew_all(requests.clone()).await;
        let mut client = self.singles.client.clone();
        for (index, (request, answer)) in requests.into_iter().zip(answers).enumerate() {
            let single = client.renew_task(patient(request)).await.map(|it| it.into_inner());
            self.agree(index, answer, single);
        }
    }

    /// Compares the answer to a request of a batch with the answer to the single call.
    fn agree<T: std::fmt::Debug + PartialEq>(
        &self,
        index: usize,
        answer: Answer<T>,
        single: Result<T, Status>,
    ) {
        let path = format!("requests[{index}].");
        let single = single.map_err(|status| {
            let details = status.get_error_details();
            let violations = details.bad_request().into_iter().flat_map(|it| &it.field_violations);
            let violations = violations.map(|violation| pb::ItemViolation {
                field: format!("{path}{}", violation.field),
                description: violation.description.clone(),
            });
            (status.code() as i32, violations.collect::<Vec<_>>())
        });
        let answer = answer.map_err(|error| (error.code, error.violations));
        assert_eq!(answer, single, "{}, request {index}", self.context);
    }

    fn pool(&mut self) -> &'static str {
        POOLS.choose(&mut self.random).unwrap()
    }

    /// Sometimes invalid.
    fn device(&mut self) -> String {
        match self.random.random_range(0..60) {
            0 => String::new(),
            number => format!("d{}", number % 7),
        }
    }

    fn task(&mut self) -> String {
        format!("t{}", self.random.random_range(0..5))
    }

    /// Sometimes invalid.
    fn lease(&mut self) -> prost_types::Duration {
        duration(Duration::from_millis([0, 100, 400, 900, 3000][self.random.random_range(0..5)]))
    }
}

async fn equal(redis: bool) {
    let seed = rand::random();
    println!("seed {seed}");
    let batches = World::with_rules(redis, configured(RULES)).await;
    let singles = World::with_rules(redis, configured(RULES)).await;
    let random = ChaCha8Rng::seed_from_u64(seed);
    let mut pair = Pair { batches, singles, random, context: String::new() };
    for pool in POOLS {
        for world in [&pair.batches, &pair.singles] {
            world.configure(capacity(pool, 5)).await;
        }
    }
    for step in 0..STEPS {
        pair.context = format!("seed {seed}, step {step}");
        pair.step().await;
    }
    for pool in POOLS {
        // The history must not end in pools that refuse everything.
        pair.batches.configure(capacity(pool, 100)).await;
        let answer = pair.batches.admit(pool, "last", &format!("{seed}")).await;
        assert_eq!(answer.decision(), AdmitDecision::Admitted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_gets_the_answers_of_single_calls_embedded() {
    equal(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_gets_the_answers_of_single_calls_redis() {
    equal(true).await;
}
