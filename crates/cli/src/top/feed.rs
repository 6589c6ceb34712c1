//! Polls the server and follows its events.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    select,
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval},
};

use tollgate_client::{Connection, Error, PoolEvent, PoolState, Watch, Watched};

/// Interval between two polls.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of pools per call.
const PAGE: u32 = 100;
/// Maximum number of calls to list all pools.
const PAGES_MAX: usize = 10;
/// Maximum number of unread news items.
const NEWS_MAX: usize = 1000;

/// A news item.
#[derive(Debug)]
pub(super) enum News {
    /// The state of a pool.
    State(PoolState),
    /// The list of pools is complete. True if the server has more pools than it lists.
    Listed(bool),
    /// An event of a pool.
    Event(Arc<str>, PoolEvent),
    /// The server does not answer.
    Lost(Error),
    /// The server has rejected the event stream for this reason.
    Silent(Error),
    /// The server answers.
    Found,
}

/// The connection to the polled server.
#[derive(Debug)]
pub(super) struct NewsFeed {
    connection: Connection,
    news: mpsc::Sender<News>,
    /// The pools to watch.
    wanted: watch::Receiver<Vec<Arc<str>>>,
    /// The watched pools, with the tasks that follow their events.
    watched: HashMap<Arc<str>, AbortHandle>,
    followers: JoinSet<()>,
    /// Token of the next page of pools, and the number of pages before it.
    page: (String, usize),
}

impl NewsFeed {
    /// Starts the feed. It ends when the receiver of the news is dropped.
    pub(super) fn start(
        connection: Connection,
    ) -> (mpsc::Receiver<News>, watch::Sender<Vec<Arc<str>>>, AbortHandle) {
        let (news, taken) = mpsc::channel(NEWS_MAX);
        let (want, wanted) = watch::channel(Vec::new());
        let feed = NewsFeed {
            connection,
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

    /// Reads one page of the list, and the watched pools that are not on it.
    async fn ask(&mut self) -> Result<(), Error> {
        let (token, before) = &self.page;
        let (pools, next) = self.connection.list_pools(PAGE, token).await?;
        let pages = before + 1;
        let mut unlisted = self.wanted.borrow().clone();
        unlisted.retain(|name| !pools.iter().any(|pool| *pool.name == **name));
        for pool in pools {
            self.send(News::State(pool)).await;
        }
        let is_last = next.is_empty() || pages == PAGES_MAX;
        let is_whole = is_last && pages == 1;
        if is_last {
            self.send(News::Listed(!next.is_empty())).await;
        }
        self.page = if is_last { (String::new(), 0) } else { (next, pages) };
        for name in unlisted.iter().filter(|_| !is_whole) {
            let pool = self.connection.pool(name).state().await?;
            self.send(News::State(pool)).await;
        }
        Ok(())
    }

    /// Starts and stops event streams until exactly the wanted pools are watched.
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
                let follow = follow(self.connection.clone(), name.clone(), self.news.clone());
                self.watched.insert(name, self.followers.spawn(follow));
            }
        }
    }

    async fn send(&self, news: News) {
        // `run` notices if the receiver is dropped.
        let _ = self.news.send(news).await;
    }
}

/// Forwards the events of a pool until the receiver is dropped or the server rejects the stream.
async fn follow(connection: Connection, pool: Arc<str>, news: mpsc::Sender<News>) {
    let mut watch: Watch<PoolEvent> = Watch::new(connection, &pool);
    loop {
        let told = match watch.next().await {
            Ok(Watched::Event(event)) => news.send(News::Event(pool.clone(), event)).await,
            // The polls report whether the server answers.
            Ok(Watched::Lost(_) | Watched::Resumed) => Ok(()),
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
