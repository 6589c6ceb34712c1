//! Asks the server, and listens to it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    select,
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval},
};

use super::super::follow::{Followed, Follower};
use crate::{
    admission::Event,
    grpc::client::{CallError, Client, PoolStanding, Told},
};

/// How often pools are asked for.
const PERIOD: Duration = Duration::from_secs(1);
/// Pools that are listed in a call.
const PAGE: u32 = 100;
/// Calls that list all pools that are looked at.
const PAGES_MAX: usize = 10;
/// News that wait to be taken.
const NEWS_MAX: usize = 1000;

/// What there is to tell.
#[derive(Debug)]
pub(super) enum News {
    /// How a pool stands.
    Standing(PoolStanding),
    /// The list of pools is at its end; whether there are more.
    Listed(bool),
    /// Something happened in a pool.
    Event(Arc<str>, Told<Event>),
    /// The server does not answer.
    Lost(CallError),
    /// It says why it has no events.
    Silent(CallError),
    /// It answers.
    Found,
}

/// A server that is asked and listened to.
#[derive(Debug)]
pub(super) struct Feed {
    client: Client,
    news: mpsc::Sender<News>,
    /// The pools to watch.
    wanted: watch::Receiver<Vec<Arc<str>>>,
    /// Those that are watched, until each of the tasks is ended.
    watched: HashMap<Arc<str>, AbortHandle>,
    followers: JoinSet<()>,
    /// The page of pools to ask for next, and how many there were before.
    page: (String, usize),
}

impl Feed {
    /// Begins; ends when the news are not taken any more.
    pub(super) fn start(
        client: Client,
    ) -> (mpsc::Receiver<News>, watch::Sender<Vec<Arc<str>>>, AbortHandle) {
        let (news, taken) = mpsc::channel(NEWS_MAX);
        let (want, wanted) = watch::channel(Vec::new());
        let feed = Feed {
            client,
            news,
            wanted,
            watched: HashMap::new(),
            followers: JoinSet::new(),
            page: (String::new(), 0),
        };
        (taken, want, tokio::spawn(feed.run()).abort_handle())
    }

    async fn run(mut self) {
        let mut period = interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            select! {
                _ = period.tick() => {
                    let news = match self.ask().await {
                        Ok(()) => News::Found,
                        Err(error) => News::Lost(error),
                    };
                    if self.news.send(news).await.is_err() {
                        return;
                    }
                }
                changed = self.wanted.changed() => match changed {
                    Ok(()) => self.listen(),
                    Err(_) => return,
                },
                Some(_) = self.followers.join_next() => {}
            }
        }
    }

    /// Asks for a page of the list, and for the watched pools that are not on it.
    async fn ask(&mut self) -> Result<(), CallError> {
        let (token, before) = &self.page;
        let (pools, next) = self.client.list_pools(PAGE, token).await?;
        let pages = before + 1;
        let mut unlisted = self.wanted.borrow().clone();
        unlisted.retain(|name| !pools.iter().any(|pool| *pool.name == **name));
        for pool in pools {
            self.tell(News::Standing(pool)).await;
        }
        let is_last = next.is_empty() || pages == PAGES_MAX;
        let is_whole = is_last && pages == 1;
        if is_last {
            self.tell(News::Listed(!next.is_empty())).await;
        }
        self.page = if is_last { (String::new(), 0) } else { (next, pages) };
        for name in unlisted.iter().filter(|_| !is_whole) {
            let pool = self.client.get_pool(name).await?;
            self.tell(News::Standing(pool)).await;
        }
        Ok(())
    }

    /// Watches the pools that are wanted, and no others.
    fn listen(&mut self) {
        let wanted = self.wanted.borrow_and_update().clone();
        self.watched.retain(|name, follower| {
            let stays = wanted.contains(name);
            if !stays {
                follower.abort();
            }
            stays
        });
        for name in wanted {
            if !self.watched.contains_key(&name) {
                let follow = follow(self.client.clone(), name.clone(), self.news.clone());
                self.watched.insert(name, self.followers.spawn(follow));
            }
        }
    }

    async fn tell(&self, news: News) {
        // Who does not take it is seen where this ends.
        let _ = self.news.send(news).await;
    }
}

/// Tells of a pool's events for as long as they come.
async fn follow(client: Client, pool: Arc<str>, news: mpsc::Sender<News>) {
    let mut follower: Follower<Told<Event>> = Follower::new(client, &pool);
    loop {
        let told = match follower.next().await {
            Ok(Followed::Event(event)) => news.send(News::Event(pool.clone(), event)).await,
            // The calls of every second tell whether the server is there.
            Ok(Followed::Lost(_) | Followed::Resumed) => Ok(()),
            Err(error) => {
                let _ = news.send(News::Silent(error)).await;
                return;
            }
        };
        if told.is_err() {
            return;
        }
    }
}
