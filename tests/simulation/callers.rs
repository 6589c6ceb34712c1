//! The callers of all capabilities: their models, requests and answers.

use std::sync::Arc;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tollgate_engine::Engine;

use crate::{
    capability::{Answering, Capability, Checked, Part},
    lock::Lock,
    pool::Pool,
    rate::Key,
    sequence::Serials,
    stock::Shelf,
};

macro_rules! capabilities {
    ($($kind:ident($state:ty, $place:ident, $count:literal)),* $(,)?) => {
        /// A request in the network.
        #[derive(Debug, Clone)]
        pub enum Request {
            $($kind(Part, <$state as Capability>::Ask),)*
        }

        /// The answer to a request.
        #[derive(Debug, Clone)]
        pub enum Answer {
            $($kind(<$state as Capability>::Answer),)*
        }

        /// The models of all parts, by kind.
        #[derive(Debug, Clone)]
        pub struct Callers {
            $($place: Vec<Arc<$state>>,)*
        }

        impl Callers {
            pub fn new() -> Callers {
                let part = |index| Part { index, generation: 0 };
                Callers { $($place: (0..$count).map(part).map(|p| Arc::new(<$state>::new(p))).collect(),)* }
            }

            /// Returns a random next request.
            pub fn think(&mut self, random: &mut ChaCha8Rng, step: u64) -> Request {
                let kinds = [$(stringify!($kind)),*];
                // Pools have the most rules, so they get the most requests.
                let kind = kinds[random.random_range(0..kinds.len() + 2).saturating_sub(2)];
                $(if kind == stringify!($kind) {
                    let place = random.random_range(0..self.$place.len());
                    let state = Arc::make_mut(&mut self.$place[place]);
                    return Request::$kind(state.part(), state.ask(random, step));
                })*
                unreachable!("{kind}")
            }

            /// Requests that read the whole state.
            pub fn reads(&self) -> Vec<Request> {
                let mut reads = Vec::new();
                $(for state in &self.$place {
                    let part = state.part();
                    reads.extend(state.reads().into_iter().map(|ask| Request::$kind(part, ask)));
                })*
                reads
            }

            /// Checks an answer against the model of its part, and updates the model.
            pub fn check(&mut self, request: &Request, answer: &Answer, now: u64) -> Checked {
                match (request, answer) {
                    $((Request::$kind(part, ask), Answer::$kind(answer)) => {
                        let state = &mut self.$place[usize::from(part.index)];
                        if state.part() == *part { Arc::make_mut(state).check(ask, answer, now) } else {
// Of an earlier generation, whose model was dropped.
 Ok(()) }
                    })*
                    _ => Err("the answer belongs to the call"),
                }
            }

            /// Records that a request about its part is in flight in this step.
            pub fn mention(&mut self, request: &Request, step: u64) {
                match request {
                    $(Request::$kind(part, ask) => {
                        let state = &mut self.$place[usize::from(part.index)];
                        Arc::make_mut(state).mention(ask, step);
                    })*
                }
            }

            /// Continues with the next generation of a part, since it is unknown whether a request
            /// was executed.
            pub fn give_up(&mut self, request: &Request) {
                match request {
                    $(Request::$kind(part, _) => {
                        let state = &mut self.$place[usize::from(part.index)];
                        if state.part() == *part {
                            let part = Part { generation: part.generation + 1, ..*part };
                            *state = Arc::new(<$state>::new(part));
                        }
                    })*
                }
            }

            /// The process has lost its last changes.
            pub fn lose(&mut self) {
                $(self.$place.iter_mut().for_each(|state| Arc::make_mut(state).lose());)*
            }

            /// Drops entries about which no caller asks after a long jump of time.
            pub fn forget(&mut self, now: u64) {
                $(self.$place.iter_mut().for_each(|state| Arc::make_mut(state).forget(now));)*
            }
        }

        impl Request {
            pub fn send(&self, engine: Arc<Engine>) -> Answering<Answer> {
                match self.clone() {
                    $(Request::$kind(part, ask) => {
                        let answer = <$state>::run(part, ask, engine);
                        Box::pin(async move { answer.await.map(Answer::$kind) })
                    })*
                }
            }

            /// Whether both requests are about the same part.
            pub fn is_about(&self, other: &Request) -> bool {
                match (self, other) {
                    $((Request::$kind(one, _), Request::$kind(other, _)) => one == other,)*
                    _ => false,
                }
            }
        }

        impl Answer {
            pub fn is_change(&self) -> bool {
                match self {
                    $(Answer::$kind(answer) => <$state>::is_change(answer),)*
                }
            }
        }
    };
}

capabilities! {
    Pool(Pool, pools, 3),
    Lock(Lock, locks, 3),
    Rate(Key, keys, 5),
    Serial(Serials, sequences, 3),
    Stock(Shelf, shelves, 3),
}
