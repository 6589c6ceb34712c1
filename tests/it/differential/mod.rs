//! Both executors of every decision on the same random histories.

pub mod locks;
pub mod pools;
pub mod rates;
pub mod sequences;
pub mod stock;
