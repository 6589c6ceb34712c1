//! The stages of the engine that the calls of a decision pass, besides the store.
//!
//! [`Decision::Stages`](super::Decision::Stages) names one of these types. `engine::submit` defines
//! what each of them does, in order.

/// The store.
#[derive(Debug)]
pub enum Direct {}

/// The store, in steps that each read a part of the page ([`super::Paged`]).
#[derive(Debug)]
pub enum InSteps {}

/// The store, then the fallback if the store is unreachable or does not know the grant
/// ([`super::fallback::Degradable`]).
#[derive(Debug)]
pub enum WithFallback {}

/// The denial cache, the store, the fallback ([`super::denial::Deniable`]).
#[derive(Debug)]
pub enum Cached {}

/// The waiters, then the store ([`super::waiters::Waits`]).
#[derive(Debug)]
pub enum Waiting {}

/// The waiters if the caller is willing to wait, otherwise the denial cache; the store; the
/// fallback.
#[derive(Debug)]
pub enum WaitingOrCached {}

/// The coalescer, then the store ([`super::Joined`]).
#[derive(Debug)]
pub enum Coalesced {}
