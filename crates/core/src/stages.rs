//! The stages of the engine that the calls of a decision pass, besides the store.
//!
//! [`Decision::Stages`](super::Decision::Stages) names one of these types. `engine::submit` defines
//! what each of them does, in order.

/// The store.
#[derive(Debug)]
pub enum Direct {}

/// The store, again until a step decides ([`super::Stepwise`]).
#[derive(Debug)]
pub enum UntilDecided {}

/// The store, in steps that each read a part of the page ([`super::Paged`]).
#[derive(Debug)]
pub enum InSteps {}

/// The store, then the fallback if the store is unreachable or does not know the grant
/// ([`super::fallback::Degradable`]).
#[derive(Debug)]
pub enum WithFallback {}

/// The store, then the index ([`super::Indexing`]).
#[derive(Debug)]
pub enum Indexed {}

/// The denial cache, the store, the fallback ([`super::denial::Deniable`]).
#[derive(Debug)]
pub enum Cached {}

/// The denial cache, the store, the fallback ([`super::denial::Deniable`]), the index
/// ([`super::Indexing`]).
#[derive(Debug)]
pub enum CachedAndIndexed {}

/// The waiters, then the store ([`super::waiting::Waits`]). Decides again while the outcome says
/// [`super::waiting::Proceed::Again`].
#[derive(Debug)]
pub enum Waiting {}

/// The waiters if the caller is willing to wait, otherwise the denial cache; the store, as for
/// [`Waiting`]; the fallback.
#[derive(Debug)]
pub enum WaitingOrCached {}

/// The coalescer, then the store ([`super::Joined`]).
#[derive(Debug)]
pub enum Coalesced {}
