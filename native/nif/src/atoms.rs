//! Atoms, made once.

rustler::atoms! {
    ok,
    error,
    // Asks the Erlang side to encode key and value itself.
    encode,
    // The bytes are an encoded term, left for the Erlang side to decode.
    encoded,
    // Asks the Erlang side to call again on a dirty scheduler.
    dirty,
    // Misuse: `{badarg, Argument, Cause}`.
    badarg,
    no_such_table,
    not_iodata,
    key_too_long,
    value_too_long,
    not_an_integer,
    not_a_list,
    not_a_pair,
    bad_option,
    // Facts.
    present,
    absent,
    version_differs,
    overflow,
    full,
    not_a_float,
    not_finite,
    no_such_database,
    same_object,
    reply_too_large,
    exists,
    busy,
    // Values of options and replies.
    always,
    version,
    table,
    never,
    keep,
    at,
    ttl,
    infinity,
    done,
    more,
    raw,
    term,
    evict,
    refuse,
    undefined,
    true_ = "true",
    false_ = "false",
    nif_panicked,
}
