//! State that survives a restart, kill -9, power loss, full disks and stepped clocks; exports
//! and imports.

pub mod damage;
pub mod disk;
pub mod export;
pub mod kill;
pub mod restarts;
pub mod time;
