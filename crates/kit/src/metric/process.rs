//! Metrics that every Headroom process exports: build, connections, certificates, reloads.

use super::{Counter, Gauge, Unit};

crate::metrics! {
    /// Which build runs: always 1.
    pub static BUILD_INFO: Gauge<2> = Gauge::new(
        "headroom_build_info",
        Unit::Count,
        &["component", "version"],
        "Always 1; the labels name the program and its version.",
    );

    /// Connections open on a listener, those still in their handshake included.
    pub static CONNECTIONS: Gauge<1> = Gauge::new(
        "headroom_serve_connections",
        Unit::Count,
        &["listener"],
        "Connections open on a listener, handshakes included.",
    );

    /// Connections refused or closed by us, by reason.
    pub static REFUSED: Counter<2> = Counter::new(
        "headroom_serve_refused_total",
        Unit::Count,
        &["listener", "reason"],
        "Connections refused or closed: full, source_full (too many of one address), made_room (idle, and another came), handshake_failed, handshake_timeout.",
    );

    /// Errors from accepting connections.
    pub static ACCEPT_ERRORS: Counter<1> = Counter::new(
        "headroom_serve_accept_errors_total",
        Unit::Count,
        &["listener"],
        "Errors from accept(2), such as too many open files.",
    );

    /// Loads of a serving certificate after the first, by result.
    pub static CERTIFICATE_RELOADS: Counter<2> = Counter::new(
        "headroom_tls_reloads_total",
        Unit::Count,
        &["certificate", "result"],
        "Changed certificate files that were taken into use (loaded) or refused (failed).",
    );

    /// Reloads of the configuration file, by result.
    pub static CONFIG_RELOADS: Counter<1> = Counter::new(
        "headroom_config_reloads_total",
        Unit::Count,
        &["result"],
        "Changed configuration files that were taken into use (loaded) or refused (failed).",
    );

    /// When the serving certificate ends.
    pub static CERTIFICATE_EXPIRY: Gauge<1> = Gauge::new(
        "headroom_tls_certificate_expiry_timestamp_seconds",
        Unit::Seconds,
        &["certificate"],
        "When the certificate in use expires, in seconds since the Unix epoch.",
    );
}
