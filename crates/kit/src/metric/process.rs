//! Metrics that every Headroom process exports: build, connections, certificates, reloads.

use super::{Counter, Gauge, Unit};

crate::metrics! {
    /// Always 1; labels name the program and its version.
    pub static BUILD_INFO: Gauge<2> = Gauge::new(
        "headroom_build_info",
        Unit::Count,
        &["component", "version"],
        "Always 1; the labels name the program and its version.",
    );

    /// Open connections per listener, handshakes included.
    pub static CONNECTIONS: Gauge<1> = Gauge::new(
        "headroom_serve_connections",
        Unit::Count,
        &["listener"],
        "Open connections of a listener, handshakes included.",
    );

    /// Connections refused or closed by the listener, by reason.
    pub static REFUSED: Counter<2> = Counter::new(
        "headroom_serve_refused_total",
        Unit::Count,
        &["listener", "reason"],
        "Connections refused or closed by the listener: full, source_full (too many from one address), made_room (closed while idle to accept another), unread (the client accepted no data of a response), handshake_failed, handshake_timeout.",
    );

    /// Log lines that were not written, by reason.
    pub static LOG_DROPPED: Counter<1> = Counter::new(
        "headroom_log_lines_dropped_total",
        Unit::Count,
        &["reason"],
        "Log lines that were not written: rate (too many of one kind), slow (standard error accepts lines too slowly), closed (it accepts none).",
    );

    /// Errors of accept(2), such as too many open files.
    pub static ACCEPT_ERRORS: Counter<1> = Counter::new(
        "headroom_serve_accept_errors_total",
        Unit::Count,
        &["listener"],
        "Errors from accept(2), such as too many open files.",
    );

    /// Reloads of a serving certificate, by result; the first load does not count.
    pub static CERTIFICATE_RELOADS: Counter<2> = Counter::new(
        "headroom_tls_reloads_total",
        Unit::Count,
        &["certificate", "result"],
        "Changed certificate files that were loaded or refused (failed).",
    );

    /// Reloads of the configuration file, by result.
    pub static CONFIG_RELOADS: Counter<1> = Counter::new(
        "headroom_config_reloads_total",
        Unit::Count,
        &["result"],
        "Changed configuration files that were loaded or refused (failed).",
    );

    /// Expiry of the serving certificate, in seconds since the Unix epoch.
    pub static CERTIFICATE_EXPIRY: Gauge<1> = Gauge::new(
        "headroom_tls_certificate_expiry_timestamp_seconds",
        Unit::Seconds,
        &["certificate"],
        "Expiry time of the serving certificate, in seconds since the Unix epoch.",
    );
}
