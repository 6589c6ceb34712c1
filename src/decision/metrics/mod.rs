//! What a server counts about itself. The scrape of the admin listener reads it.

pub mod configuration;
