-module(todana).
-moduledoc """
A key-value store inside the node.

A table belongs to the node: no process owns it, and callers read and write
records without sending a message. `open/2` creates a table or finds an open
one; every function takes its name, or the handle that `open/2` returned.

    {ok, _} = todana:open(sessions, #{codec => term}),
    ok = todana:put(sessions, {user, 7}, #{name => ~"Ada"}),
    {ok, #{name := ~"Ada"}} = todana:get(sessions, {user, 7}).

Network clients use the databases `db0` to `db15`; open them by these names.

Functions return facts (`{ok, Value} | error`, `{error, Reason}`). Misuse raises
`badarg` and names the argument. If a write returns `{error, Reason}`, it has
written nothing; there is one exception, the reason `unknown`.

Durable tables outlive the node: `open(orders, #{durable => true})`, in a node
with a data directory. A write to one returns when the log has it, and it may
also return `{error, unknown}`: the log did not answer in time, and the write
may or may not be executed. Nothing is executed by a call that raises
`recovering` (the node still reads its log), `log_failed` (the log is damaged:
`info/0` says how) or `unavailable` (the log accepts no writes, for example
because the disk is full).

With codec `term`, a key may contain pids, ports and references. In a table in
memory it stays the same key when the node becomes distributed. In a value, and
in a key of a durable table, identifiers include the node's name: an identifier
stored before distribution started does not compare equal to the same identifier
afterwards. The only funs that a key may contain
are external ones (`fun M:F/A`).

A table of type `ordered_set` keeps its keys in order: `range/4`, `prefix/3` and
related functions walk over it. With codec `term` that is Erlang's term order,
and its keys contain no pids, ports, references or funs.

`update/3` changes one record by a function, `transaction/2` several records of
a table. Nothing here requires a process to own a record.
""".

%% Tables
-export([open/2, close/1, drop/1, list/0, info/1, handle/1, set_limits/2]).
%% The node
-export([info/0]).
%% One key
-export([
    get/2, get/3, get/4,
    get_entry/2, get_entry/3,
    is_key/2,
    put/3, put/4,
    compare_and_swap/4, compare_and_swap/5,
    take/2,
    delete/2, delete/3,
    update/3, update/4,
    update_counter/3, update_counter/4,
    ttl/2,
    expire/3,
    persist/2,
    fetch/3, fetch/4
]).
%% Several keys
-export([get_many/2, get_many/3, put_many/2, put_many/3, delete_many/2]).
-export([transaction/2, transaction/3]).
%% Reads of a cluster
-export([refresh/2, index/1, read_after/2]).
%% Ordered tables
-export([
    range/3, range/4,
    prefix/2, prefix/3,
    first/1,
    last/1,
    next/2,
    prev/2,
    fold_range/5
]).
%% The whole table
-export([
    scan/1, scan/2, scan/3,
    fold/3,
    to_list/1,
    fold_snapshot/3,
    dump/2, load/2,
    count/1,
    bytes/1,
    clear/1,
    stats/1
]).

%% Changes
-export([subscribe/2, events/1, unsubscribe/1]).
%% Events of the application
-export([set_event_handler/1]).

-export_type([
    table/0,
    handle/0,
    key/0,
    value/0,
    version/0,
    entry/0,
    open_options/0,
    limits/0,
    put_options/0,
    counter_options/0,
    many_options/0,
    fetch_options/0,
    read_level/0,
    read_options/0,
    update_options/0,
    update_function/0,
    transaction_options/0,
    order/0,
    bound/0,
    range_options/0,
    cursor/0,
    range_cursor/0,
    subscribe_options/0,
    subscription/0,
    event/0
]).

-doc "The name of an open table, or its handle.".
-type table() :: atom() | handle().
-doc "Identifies an open table; `open/2` and `handle/1` return it.".
-opaque handle() :: reference().
-doc """
With codec `raw`: iodata of up to 64 KiB, as a list of up to 81,920 elements.
With codec `term`: any term without local funs, of up to 64 KiB in the external
term format.
""".
-type key() :: term().
-doc "With codec `raw`: iodata, read as a binary. With `term`: any term.".
-type value() :: term().
-doc """
Number of the write that stored the record: no other write in the table has the
same, and later writes of the key have higher ones.
""".
-type version() :: non_neg_integer().
-doc "A record: its value and its metadata.".
-type entry() :: #{
    value := value(),
    version := version(),
    flags := 0..16#ffffffff,
    expires_at_ms := non_neg_integer() | infinity
}.
-doc """
How an ordered table compares keys, ascending or descending:

- `lexical`, `decimal` (codec `raw`): by their bytes, or by the decimal number
  at their front (keys without one count as 0) and then by their bytes
- `term` (codec `term`): in Erlang's term order. Where two keys compare equal
  but differ, the first number that differs decides: an integer is before a
  float of the same value, and `-0.0` before `0.0`
""".
-type order() ::
    lexical | decimal | lexical_descending | decimal_descending
    | term | term_descending.
-doc """
- `type`: `set` (default) or `ordered_set`
- `order`: of an `ordered_set`; default `lexical`, with codec `term` `term`
- `codec`: `raw` (default) or `term`
- `ttl_ms`: time to live of records that are written without an expiry
- `entries_max`, `bytes_max`: limits; default none
- `when_full`: what a write does at a limit: `evict` (default) removes the least
  used records, `refuse` returns `{error, full}`
- `durable`: whether the table outlives the node. Its options are kept with it;
  it has no limits, and needs the application's option `data_dir`. Default
  `false`
- `shards`: number of parts of the table, each with its own lock, at most
  65,536; default 4,096, or fewer if the limits allow fewer than 32,768
  records. A step that visits a whole shard, for example a page of a scan,
  blocks writers of that shard: about 1,000 records per shard are a good
  choice
""".
-type open_options() :: #{
    type => set | ordered_set,
    order => order(),
    codec => raw | term,
    ttl_ms => pos_integer() | infinity,
    entries_max => pos_integer() | infinity,
    bytes_max => pos_integer() | infinity,
    when_full => evict | refuse,
    durable => boolean(),
    shards => pos_integer()
}.
-doc "Options of `t:open_options/0` that may change while the table is open.".
-type limits() :: #{
    ttl_ms => pos_integer() | infinity,
    entries_max => pos_integer() | infinity,
    bytes_max => pos_integer() | infinity,
    when_full => evict | refuse
}.
-doc """
- `ttl_ms`: milliseconds to live; `keep` leaves the record's expiry as it is.
  Default: the table's `ttl_ms`
- `expires_at_ms`: the time of expiry, in milliseconds of `os:system_time/1`
- `flags`: a number that memcached clients see
- `only`: write only if there is no record (`absent`), if there is one
  (`present`), or if it has this version
""".
-type put_options() :: #{
    ttl_ms => pos_integer() | infinity | keep,
    expires_at_ms => non_neg_integer(),
    flags => 0..16#ffffffff,
    only => absent | present | {version, version()}
}.
-doc """
- `initial`: the value that a missing counter starts from; default 0
- `ttl_ms`, `expires_at_ms`: expiry of a counter that this call creates; an
  existing counter keeps its own
""".
-type counter_options() :: #{
    initial => integer(),
    ttl_ms => pos_integer() | infinity,
    expires_at_ms => non_neg_integer()
}.
-doc """
- `atomic`: store all pairs in one step, or none; no reader sees a part of them
- `only`: with `atomic`, write only if none of the keys has a record
- `ttl_ms`, `expires_at_ms`: as in `t:put_options/0`
""".
-type many_options() :: #{
    atomic => boolean(),
    only => absent,
    ttl_ms => pos_integer() | infinity | keep,
    expires_at_ms => non_neg_integer()
}.
-doc """
- `timeout_ms`: how long to wait for another process's computation; default
  5,000. It does not limit the caller's own computation
- the others: how to store the value, as in `t:put_options/0`
""".
-type fetch_options() :: #{
    timeout_ms => timeout(),
    ttl_ms => pos_integer() | infinity,
    expires_at_ms => non_neg_integer(),
    flags => 0..16#ffffffff
}.
-doc """
How new the records of a durable table must be that a node of a cluster reads:
as the node has them (`local`); with everything that any node acknowledged more
than `read_bound_ms` ago (`bounded`); or with everything that any node
acknowledged before the call (`linear`). Without a cluster, and for a table in
memory, all are the same.
""".
-type read_level() :: local | bounded | linear.
-doc "- `read`: how new the records must be; default `local`".
-type read_options() :: #{read => read_level()}.
-doc """
- `attempts`: how often the function is called at most; default 100
- `ttl_ms`, `expires_at_ms`, `flags`: how to store the value, as in
  `t:put_options/0`. By default a record keeps its expiry and its flags, and a
  new record gets the table's `ttl_ms`
""".
-type update_options() :: #{
    attempts => pos_integer() | infinity,
    ttl_ms => pos_integer() | infinity | keep,
    expires_at_ms => non_neg_integer(),
    flags => 0..16#ffffffff
}.
-doc """
Decides what becomes of a record. It is given what `get/2` would return, and
returns

- `{put, Value}` or `{put, Value, Options}` to store a value. `Options` may be
  `ttl_ms`, `expires_at_ms` and `flags`
- `delete` to remove the record
- `keep` to leave everything as it is
- `{error, Reason}` to leave everything as it is and make `Reason` the result
""".
-type update_function() :: fun(
    ({ok, value()} | error) ->
        {put, value()}
        | {put, value(), put_options()}
        | delete
        | keep
        | {error, term()}
).
-doc "`attempts`: how often the function is called at most; default 100.".
-type transaction_options() :: #{attempts => pos_integer() | infinity}.
-doc "The position at which a scan continues.".
-opaque cursor() :: {cursor, pos_integer()}.
-doc """
An end of a range: a key, included in the range or excluded from it. With codec
`term`, `{included, Key}` also names keys such as `first` and `{excluded, 1}`.
""".
-type bound() :: key() | {included, key()} | {excluded, key()}.
-doc """
- `limit`: maximum number of records in the page, 1 to 1,000; default 100
- `reverse`: walk from the end of the range to its beginning
- `keys_only`: return keys instead of pairs
- `cursor`: the cursor that the previous page returned; default `start`
""".
-type range_options() :: #{
    limit => 1..1000,
    reverse => boolean(),
    keys_only => boolean(),
    cursor => start | range_cursor()
}.
-doc "The position at which a range continues.".
-opaque range_cursor() :: {cursor, binary()}.

-doc """
- `key`: only changes of this key
- `prefix`: only changes of keys with this prefix: bytes with codec `raw`; with
  codec `term`, in an ordered table, a term as in `prefix/2`
- `events`: only these kinds; default all
- `queue_entries_max`: the maximum number of events that wait for the
  subscriber; default 16,384, at most 1,048,576
""".
-type subscribe_options() :: #{
    key => key(),
    prefix => iodata() | term(),
    events => [put | delete | expire | evict | clear | swap, ...],
    queue_entries_max => 1..1048576
}.
-doc "A subscription to the changes of a table.".
-type subscription() :: reference().
-doc """
A change: the kind, the key, and the version of the record that was written or
removed.

- `put`: a record was written; its value, or only its expiry or flags
- `delete`, `expire`, `evict`: a record was removed by a call or command,
  because it expired, or to make room
- `clear`: all records were removed, which had this version or a lower one
- `swap`: the database was exchanged for another one by `SWAPDB`, and the
  version is that of the new one's last write. Read the database again
- `lost`: the queue was full, and this number of events was dropped here
""".
-type event() ::
    {put | delete | expire | evict, key(), version()}
    | {clear | swap, version()}
    | {lost, pos_integer()}.

%% A binary of this size and more may be kept by reference instead of being
%% copied: see native/nif/src/kept.rs. Below it a copy takes hardly longer, and
%% less memory.
-define(KEPT_BYTES_MIN, 1_000).

%% ---------------------------------------------------------------- tables ---

-doc """
Creates a table, or finds the open one of this name. If the open one has other
options, returns these with both values, for example
`{error, {exists, #{codec => {raw, term}}}}`: present is `raw`, given was
`term`. `ht(todana, open_options)` in the shell explains the options.

In a node with a data directory the names of durable tables are known when the
log has been read. Until then, a call for a table in memory that is not open
waits; a call for a durable one raises `recovering`, as does every call if the
log cannot be read.
""".
-spec open(atom(), open_options()) ->
    {ok, handle()} | {error, {exists, Differing} | full | unknown}
when
    Differing :: #{atom() => {Present :: term(), Given :: term()}}.
open(Name, Options) ->
    case todana_open:open(Name, Options) of
        {badarg, _, _} = Misuse ->
            todana_error:raise(open, [Name, Options], Misuse);
        Result ->
            Result
    end.

-doc """
Closes a table for all processes and frees its records. A database (`db0`) keeps
its records, and network clients can still use it. A durable table keeps its
records too: `open/2` finds them again, also after a restart of the node.
""".
-spec close(table()) -> ok.
close(Table) ->
    answer(close, [Table], todana_tables:close(Table)).

-doc """
Deletes a durable table with its records on disk, and closes it. The name may be
that of a durable table that is not open. A table in memory is closed; a
database cannot be deleted.
""".
-spec drop(table()) -> ok | error | {error, unknown}.
drop(Table) ->
    answer(drop, [Table], todana_open:drop(Table)).

-doc """
Changes limits of an open table; those that are not given stay. A later `open/2`
compares its options with the new ones, so code that opens the table at each
start should get `{error, {exists, _}}` or use the new limits.

If the table holds more than a new limit allows, the sweeper and later writes
evict the excess, some hundreds of records at a time; until then `count/1` and
`bytes/1` exceed the limit. With `when_full => refuse` no record is removed, and
writes are refused until there is room. A new `ttl_ms` applies to records that
are written from now on. The limits of databases are options of the application.
""".
-spec set_limits(table(), limits()) -> ok.
set_limits(Table, Limits) ->
    Result = todana_tables:set_limits(Table, Limits),
    answer(set_limits, [Table, Limits], Result).

-doc "The names of all open tables.".
-spec list() -> [atom()].
list() ->
    lists:sort([Name || {Name, _} <- todana_nif:tables()]).

-doc """
State and figures of the log of durable tables. In a node without a data
directory, `durability` is `none`; a guest has its `seat`, the member that
serves it, or `none`, and then its `state` is `recovering`. Otherwise, as far as
they are known:

- `state`: `serving`, `recovering` (`progress` is a percentage), `read_only` or
  `failed`; `reason` is a sentence
- `durability` (`always`, `everysec`), `data_dir`
- `log_bytes` since the last snapshot; `last_snapshot`: `age_ms`, `bytes`,
  `index`, and `duration_ms` if it was written since the start;
  `snapshot_in_progress`
- `commit_us`: `p50` and `p99` of the microseconds from the hand-over of a write
  to the log to its execution. With `always` that includes its fdatasync,
  with `everysec` it does not
- `fsync_us`: the same of an fdatasync, with `everysec` only: there is one each
  second. With `always` each batch of writes waits for its own, in `commit_us`
- `batches` and `records` that were applied, `in_flight` batches, `queue_bytes`
- `disk_free_bytes`; writes are refused below `disk_reserve_bytes`
""".
-spec info() -> #{
    state := serving | recovering | read_only | failed,
    durability := none | always | everysec,
    atom() => term()
}.
info() ->
    todana_guest:state().

-doc """
Name, options and figures of a table. `order` is present for an `ordered_set`,
and `database` for the tables of network clients. `shards` is the actual number.
The figures are those of `stats/1`.
""".
-spec info(table()) -> #{
    name := atom(),
    type := set | ordered_set,
    order => order(),
    codec := raw | term,
    ttl_ms := pos_integer() | infinity,
    entries_max := pos_integer() | infinity,
    bytes_max := pos_integer() | infinity,
    when_full := evict | refuse,
    shards := pos_integer(),
    durable := boolean(),
    database => 0..15,
    entries := non_neg_integer(),
    bytes := non_neg_integer(),
    hits := non_neg_integer(),
    misses := non_neg_integer(),
    expired := non_neg_integer(),
    evicted := non_neg_integer(),
    refused := non_neg_integer()
}.
info(Table) ->
    Result = case todana_nif:is_away(Table) of
        true -> {badarg, 0, away};
        false -> todana_tables:info(Table)
    end,
    answer(info, [Table], Result).

-doc """
The handle of a table. It is no faster than the name, but identifies this very
table: after the table is closed, using the handle is misuse, even if another
table has the same name.
""".
-spec handle(table()) -> handle().
handle(Table) ->
    handle(Table, handle).

-spec handle(table(), atom()) -> handle().
handle(Table, Function) ->
    answer(Function, [Table], todana_nif:handle(Table)).

%% --------------------------------------------------------------- one key ---

-doc "The value of a key.".
-spec get(table(), key()) -> {ok, value()} | error.
get(Table, Key) ->
    case todana_nif:get(Table, Key) of
        {ok, _} = Found -> Found;
        error -> error;
        Other -> todana_records:found(get, [Table, Key], Other)
    end.

-doc "The value of a key, or a default.".
-spec get(table(), key(), Default) -> value() | Default.
get(Table, Key, Default) ->
    case todana_nif:get(Table, Key) of
        {ok, Value} ->
            Value;
        error ->
            Default;
        Other ->
            todana_records:value([Table, Key, Default], Default, Other)
    end.

-doc "`get/3`, of records that are new enough: `refresh/2`.".
-spec get(table(), key(), Default, read_options()) -> value() | Default.
get(Table, Key, Default, Options) ->
    Arguments = [Table, Key, Default, Options],
    ok = reading(get, Arguments, Options),
    todana_records:value(Arguments, Default, todana_nif:get(Table, Key)).

-doc "The value of a key with version, flags and expiry.".
-spec get_entry(table(), key()) -> {ok, entry()} | error.
get_entry(Table, Key) ->
    todana_records:entry([Table, Key], Table, Key).

-doc "`get_entry/2`, of records that are new enough: `refresh/2`.".
-spec get_entry(table(), key(), read_options()) -> {ok, entry()} | error.
get_entry(Table, Key, Options) ->
    Arguments = [Table, Key, Options],
    ok = reading(get_entry, Arguments, Options),
    todana_records:entry(Arguments, Table, Key).

-doc "Whether there is a record.".
-spec is_key(table(), key()) -> boolean().
is_key(Table, Key) ->
    case todana_nif:is_key(Table, Key) of
        true ->
            true;
        false ->
            false;
        _ ->
            Look = fun(K, Form) -> todana_nif:is_key(Table, K, Form) end,
            todana_records:on_key(is_key, [Table, Key], Key, Look)
    end.

-doc """
Stores a value. Returns `{error, full}` only if the table refuses writes at its
limit, or cannot make room. A table in memory with codec `raw` keeps a large
binary by reference, unless it is a small part of a larger one.
""".
-spec put(table(), key(), value()) -> ok | {error, full | unknown}.
put(Table, Key, Value) when
    is_binary(Value), byte_size(Value) >= ?KEPT_BYTES_MIN
->
    Object = binary:referenced_byte_size(Value),
    case todana_nif:put_large(Table, Key, [Value], Object) of
        ok -> ok;
        {error, _} = Error -> Error;
        Other -> todana_records:put_slowly(Table, Key, Value, Other)
    end;
put(Table, Key, Value) ->
    case todana_nif:put(Table, Key, Value) of
        ok -> ok;
        {error, _} = Error -> Error;
        Other -> todana_records:put_slowly(Table, Key, Value, Other)
    end.

-doc """
Stores a value with an expiry, flags, or a condition. If the condition does not
hold, returns `{error, present}`, `{error, absent}` or
`{error, version_differs}`.
""".
-spec put(table(), key(), value(), put_options()) ->
    ok | {error, full | present | absent | version_differs | unknown}.
put(Table, Key, Value, Options) ->
    todana_records:put(Table, Key, Value, Options).

-doc """
Stores a value if the record still has the version that `get_entry/2` returned.
Returns the new version. The record gets the table's `ttl_ms`, or never expires
if the table has none; `compare_and_swap/5` takes an expiry.
""".
-spec compare_and_swap(table(), key(), version(), value()) ->
    {ok, version()} | {error, absent | version_differs | full | unknown}.
compare_and_swap(Table, Key, Version, Value) ->
    Arguments = [Table, Key, Version, Value],
    todana_records:swap(Arguments, Table, Key, Version, Value, #{}).

-doc "`compare_and_swap/4` with the options of `put/4` except `only`.".
-spec compare_and_swap(table(), key(), version(), value(), put_options()) ->
    {ok, version()} | {error, absent | version_differs | full | unknown}.
compare_and_swap(Table, Key, Version, Value, Options) ->
    Arguments = [Table, Key, Version, Value, Options],
    todana_records:swap(Arguments, Table, Key, Version, Value, Options).

-doc "Removes a record and returns its value.".
-spec take(table(), key()) -> {ok, value()} | error | {error, unknown}.
take(Table, Key) ->
    Take = fun(K, Form) -> todana_nif:take(Table, K, Form) end,
    case todana_records:change_key(take, [Table, Key], Key, Take) of
        {encoded, Bytes} -> {ok, todana_codec:decode(Bytes)};
        Result -> Result
    end.

-doc "Removes a record; `error` if there was none.".
-spec delete(table(), key()) -> ok | error | {error, unknown}.
delete(Table, Key) ->
    Delete = fun(K, Form) -> todana_nif:delete(Table, K, always, Form) end,
    todana_records:change_key(delete, [Table, Key], Key, Delete).

-doc "Removes a record if it has this version.".
-spec delete(table(), key(), #{version := version()}) ->
    ok | error | {error, version_differs | unknown}.
delete(Table, Key, #{version := Version} = Options) when
    map_size(Options) =:= 1
->
    Only = {version, Version},
    Delete = fun(K, Form) -> todana_nif:delete(Table, K, Only, Form) end,
    todana_records:change_key(delete, [Table, Key, Options], Key, Delete);
delete(Table, Key, Options) ->
    Cause = case is_map(Options) of
        true -> {bad_option, version};
        false -> not_a_map
    end,
    Misuse = {badarg, 3, Cause},
    todana_error:raise(delete, [Table, Key, Options], Misuse).

-doc "`update/4` without options.".
-spec update(table(), key(), update_function()) ->
    {ok, value()} | ok | {error, conflict | full | unknown | term()}.
update(Table, Key, Function) ->
    update([Table, Key, Function], Table, Key, Function, #{}).

-doc """
Changes a record by a function of its present value:

    {ok, 5} = todana:update(stock, apples, fun
        ({ok, N}) when N > 0 -> {put, N - 1};
        ({ok, 0}) -> {error, sold_out};
        (error) -> {put, 5}
    end).

Returns `{ok, Value}` with the value that was stored, `ok` if the function
returned `delete` or `keep`, and the function's `{error, Reason}`.

Nothing is locked while the function runs. If another process changes the record
meanwhile, the function is called again with the new value, so it should have no
side effects. `{error, conflict}` if that happened `attempts` times,
`{error, full}` if there is no room: nothing was written. An exception of the
function is raised in the caller.

For sums, `update_counter/3` is faster.
""".
-spec update(table(), key(), update_function(), update_options()) ->
    {ok, value()} | ok | {error, conflict | full | unknown | term()}.
update(Table, Key, Function, Options) ->
    Arguments = [Table, Key, Function, Options],
    update(Arguments, Table, Key, Function, Options).

-spec update([term()], table(), key(), update_function(), update_options()) ->
    {ok, value()} | ok | {error, term()}.
update(Arguments, Table, Key, Function, Options) when
    is_function(Function, 1)
->
    Wanted = wanted(update, Arguments, update, Options),
    Result = todana_update:update(Table, Key, Function, Wanted),
    answer(update, Arguments, Result);
update(Arguments, _Table, _Key, _Function, _Options) ->
    todana_error:raise(update, Arguments, {badarg, 3, {not_a_function, 1}}).

-doc """
Adds to a counter and returns its new value; `error` if there is no record.
Returns `{error, not_an_integer}` if the value is not a counter, and
`{error, overflow}` if the sum does not fit in 64 bits. The expiry of the
counter does not change.
""".
-spec update_counter(table(), key(), integer()) ->
    {ok, integer()}
    | error
    | {error, not_an_integer | overflow | full | unknown}.
update_counter(Table, Key, Increment) ->
    case todana_nif:update_counter(Table, Key, Increment) of
        {ok, _} = Counted ->
            Counted;
        error ->
            error;
        {error, _} = Error ->
            Error;
        _ ->
            Count = fun(K, Form) ->
                todana_nif:update_counter(Table, K, Increment, Form)
            end,
            Arguments = [Table, Key, Increment],
            todana_records:change_key(update_counter, Arguments, Key, Count)
    end.

-doc "`update_counter/3` that creates the counter if there is none.".
-spec update_counter(table(), key(), integer(), counter_options()) ->
    {ok, integer()} | {error, not_an_integer | overflow | full | unknown}.
update_counter(Table, Key, Increment, #{initial := Initial} = Options) when
    map_size(Options) =:= 1, is_integer(Initial), abs(Initial) < 1 bsl 63
->
    %% Most counters exist, and then the initial value means nothing.
    case todana_nif:update_counter(Table, Key, Increment) of
        {ok, _} = Counted -> Counted;
        {error, _} = Error -> Error;
        _ -> todana_records:create_counter(Table, Key, Increment, Options)
    end;
update_counter(Table, Key, Increment, Options) ->
    todana_records:create_counter(Table, Key, Increment, Options).

-doc "The time until a record expires, in milliseconds.".
-spec ttl(table(), key()) -> {ok, non_neg_integer() | infinity} | error.
ttl(Table, Key) ->
    Look = fun(K, Form) -> todana_nif:expiry(Table, K, Form) end,
    case todana_records:on_key(ttl, [Table, Key], Key, Look) of
        {ok, infinity} -> {ok, infinity};
        {ok, AtMs} -> {ok, left_ms(Table, AtMs)};
        error -> error
    end.

%% A member has answered a guest with the time left.
-spec left_ms(table(), non_neg_integer()) -> non_neg_integer().
left_ms(Table, AtMs) ->
    case todana_nif:is_away(Table) of
        true -> AtMs;
        false -> max(0, AtMs - todana_nif:time_ms(Table))
    end.

-doc """
Changes the expiry of a record: milliseconds to live, also as `#{ttl_ms => Ms}`,
or the time of expiry with `#{expires_at_ms => Time}`. Returns `error` if there
is no record.
""".
-spec expire(
    table(), key(), TtlMs | #{ttl_ms := TtlMs} | #{expires_at_ms := AtMs}
) ->
    ok | error | {error, unknown}
when
    TtlMs :: pos_integer() | infinity, AtMs :: non_neg_integer().
expire(Table, Key, When) ->
    Options =
        case When of
            _ when is_map(When); is_list(When) -> When;
            TtlMs -> #{ttl_ms => TtlMs}
        end,
    #{expires := Expires} =
        wanted(expire, [Table, Key, When], expiry, Options),
    Expire = fun(K, Form) -> todana_nif:expire(Table, K, Expires, Form) end,
    todana_records:change_key(expire, [Table, Key, When], Key, Expire).

-doc "Removes the expiry of a record. `error` if there is no record.".
-spec persist(table(), key()) -> ok | error | {error, unknown}.
persist(Table, Key) ->
    Persist = fun(K, Form) -> todana_nif:expire(Table, K, never, Form) end,
    todana_records:change_key(persist, [Table, Key], Key, Persist).

-doc "`fetch/4` without options.".
-spec fetch(table(), key(), Compute) -> {ok, value()} | {error, term()} when
    Compute :: fun(
        () -> {ok, value()} | {ok, value(), put_options()} | {error, term()}
    ).
fetch(Table, Key, Compute) ->
    fetch([Table, Key, Compute], Table, Key, Compute, #{}).

-doc """
The value of a key. If there is none, `Compute` computes the value, and `fetch`
stores it.

If several processes call `fetch` for the same missing key, one of them runs
`Compute`, and the others wait for its result. If `Compute` raises, the process
that runs it gets the exception, and one of the others computes instead. If
`Compute` returns `{error, Reason}`, nothing is stored and all of them return
it. With `{ok, Value, PutOptions}`, the computation chooses how the value is
stored. A process that has waited `timeout_ms` for another one returns
`{error, timeout}`.
""".
-spec fetch(table(), key(), Compute, fetch_options()) ->
    {ok, value()} | {error, term()}
when
    Compute :: fun(
        () -> {ok, value()} | {ok, value(), put_options()} | {error, term()}
    ).
fetch(Table, Key, Compute, Options) ->
    Arguments = [Table, Key, Compute, Options],
    fetch(Arguments, Table, Key, Compute, Options).

-spec fetch([term()], table(), key(), fun(() -> term()), fetch_options()) ->
    {ok, value()} | {error, term()}.
fetch(Arguments, Table, Key, Compute, Options) when is_function(Compute, 0) ->
    %% Read before a hit, too: misuse must not depend on the table's contents.
    Wanted = fetch_wanted(Arguments, Options),
    Present = case todana_nif:get(Table, Key) of
        {badarg, 0, away} -> todana_records:get(Table, Key);
        Answer -> todana_records:found(fetch, Arguments, Answer)
    end,
    case Present of
        {ok, _} = Found ->
            Found;
        error ->
            Result = todana_fetch:miss(Table, Key, Compute, Wanted),
            answer(fetch, Arguments, Result)
    end;
fetch(Arguments, _Table, _Key, _Compute, _Options) ->
    todana_error:raise(fetch, Arguments, {badarg, 3, {not_a_function, 0}}).

-spec fetch_wanted([term()], fetch_options()) -> map().
fetch_wanted(_Arguments, Options) when Options =:= #{} ->
    #{timeout_ms => 5000};
fetch_wanted(Arguments, Options) ->
    wanted(fetch, Arguments, fetch, Options).

%% ---------------------------------------------------------- several keys ---

-doc "The values of those keys that have a record.".
-spec get_many(table(), [key()]) -> #{key() => value()}.
get_many(Table, Keys) ->
    answer(get_many, [Table, Keys], todana_many:get(Table, Keys)).

-doc "`get_many/2`, of records that are new enough: `refresh/2`.".
-spec get_many(table(), [key()], read_options()) -> #{key() => value()}.
get_many(Table, Keys, Options) ->
    Arguments = [Table, Keys, Options],
    ok = reading(get_many, Arguments, Options),
    answer(get_many, Arguments, todana_many:get(Table, Keys)).

-doc "`put_many/3` without options.".
-spec put_many(table(), [{key(), value()}] | #{key() => value()}) ->
    ok | {error, full | unknown}.
put_many(Table, Pairs) ->
    put_many([Table, Pairs], Table, Pairs, #{}).

-doc """
Stores pairs. With `atomic => true`, stores up to 32,768 pairs in one step: no
reader sees a part of them, and after an error none is stored. Otherwise stores
one pair after another; the pairs before an `{error, full}` are stored.

`{error, too_large}` if an atomic call on a durable table has more bytes of keys
and values than one step may have: 16 MiB and `durable_value_bytes_max`.
""".
-spec put_many(
    table(), [{key(), value()}] | #{key() => value()}, many_options()
) -> ok | {error, full | present | too_large | unknown}.
put_many(Table, Pairs, Options) ->
    put_many([Table, Pairs, Options], Table, Pairs, Options).

-spec put_many(
    [term()], table(), [{key(), value()}] | #{key() => value()}, many_options()
) -> ok | {error, full | present | unknown}.
put_many(Arguments, Table, Pairs, Options) ->
    Wanted = wanted(put_many, Arguments, many, Options),
    answer(put_many, Arguments, todana_many:put(Table, Pairs, Wanted)).

-doc "Removes records; returns the number removed.".
-spec delete_many(table(), [key()]) -> non_neg_integer() | {error, unknown}.
delete_many(Table, Keys) ->
    answer(delete_many, [Table, Keys], todana_many:delete(Table, Keys)).

-doc "`transaction/3` without options.".
-spec transaction(table(), fun((todana_transaction:tx()) -> Result)) ->
    Result | {error, conflict | full | too_large | unknown}
when
    Result :: ok | {ok, term()} | {error, term()}.
transaction(Table, Function) ->
    transaction([Table, Function], Table, Function, #{}).

-doc """
Reads and writes several records of one table as one step. The function is
called with a transaction, for the functions of `m:todana_transaction`:

    ok = todana:transaction(accounts, fun(Tx) ->
        {ok, A} = todana_transaction:get(Tx, a),
        {ok, B} = todana_transaction:get(Tx, b),
        ok = todana_transaction:put(Tx, a, A - 1),
        ok = todana_transaction:put(Tx, b, B + 1)
    end).

If the function returns `ok` or `{ok, Result}`, the writes happen, all at once,
and this is what `transaction` returns. `{error, Reason}` makes no writes and is
returned, as is the reason of `todana_transaction:abort/2`. An exception makes
no writes and is raised in the caller.

Nothing is locked while the function runs. If a record that it has read is
changed before the end, the function is called again, so it should have no side
effects: calls of this module in it are not part of the transaction.
`{error, conflict}` if that happened `attempts` times, `{error, full}` if there
is no room for all writes, `{error, too_large}` for more work than one step may
be: twice the number of records read and five times the number of records
written may be 65,536 at most, and in a durable table the bytes of all keys and
values written 16 MiB and `durable_value_bytes_max`.
""".
-spec transaction(
    table(),
    fun((todana_transaction:tx()) -> Result),
    transaction_options()
) -> Result | {error, conflict | full | too_large | unknown}
when
    Result :: ok | {ok, term()} | {error, term()}.
transaction(Table, Function, Options) ->
    transaction([Table, Function, Options], Table, Function, Options).

-spec transaction(
    [term()], table(), fun((todana_transaction:tx()) -> term()), map()
) -> dynamic().
transaction(Arguments, Table, Function, Options) when
    is_function(Function, 1)
->
    Wanted = wanted(transaction, Arguments, transaction, Options),
    Result = todana_transaction:run(Table, Function, Wanted),
    answer(transaction, Arguments, Result);
transaction(Arguments, _Table, _Function, _Options) ->
    Misuse = {badarg, 2, {not_a_function, 1}},
    todana_error:raise(transaction, Arguments, Misuse).

%% --------------------------------------------------- reads of a cluster ---

-doc """
Returns when the records of a durable table are so new on this node that each
function that reads them afterwards sees what the level promises. With `linear`,
these are all writes that any node acknowledged before the call. Raises
`no_leader` if no leader has confirmed that within `write_timeout_ms`: this node
may be cut off from the others.

A node without a cluster, and a table in memory, need not wait.
""".
-spec refresh(table(), read_level()) -> ok.
refresh(Table, Level) when Level =:= bounded; Level =:= linear ->
    answer(refresh, [Table, Level], todana_read:await(Table, Level));
refresh(Table, local) ->
    _ = index(Table),
    ok;
refresh(Table, Level) ->
    todana_error:raise(refresh, [Table, Level], {badarg, 2, not_a_level}).

-doc """
The number of the last entry of the log that a durable table has on this node;
0 for a table in memory. Each write that this node has acknowledged is in it.
Another node that is given this number reads these writes after `read_after/2`.
""".
-spec index(table()) -> non_neg_integer().
index(Table) ->
    answer(index, [Table], todana_nif:read_index(Table)).

-doc """
Returns when this node has an entry of the log, whose number is from `index/1`
of any node of the cluster. Raises `not_applied` if it does not within
`write_timeout_ms`.
""".
-spec read_after(table(), Index :: non_neg_integer()) -> ok.
read_after(Table, Index) when
    is_integer(Index), Index >= 0, Index < 1 bsl 64
->
    Result = todana_read:await_entry(Table, Index),
    answer(read_after, [Table, Index], Result);
read_after(Table, Index) ->
    todana_error:raise(read_after, [Table, Index], {badarg, 2, not_an_index}).

%% -------------------------------------------------------- ordered tables ---

-doc """
A page of at most 100 records from one key to another in the table's order, and
the cursor of the next page: `range/4` without options.
""".
-spec range(table(), first | bound(), last | bound()) ->
    {[{key(), value()}], range_cursor() | done}.
range(Table, From, To) ->
    Result = todana_ranges:range(Table, From, To, #{}),
    answer(range, [Table, From, To], Result).

-doc """
A page of the records from one key to another in the table's order, and the
cursor of the next page. `first` and `last` are the ends of the table.

- `limit`: maximum number of records in the page, 1 to 1,000; default 100
- `reverse`: begin at `To`; default `false`
- `keys_only`: return keys instead of pairs; default `false`
- `cursor`: the cursor that the previous page returned; default `start`

A page may have fewer records than `limit`, even none, and not be the last: only
`done` indicates the end. A record that exists from the first page to the last
is returned exactly once. No lock is held between pages.
""".
-spec range(table(), first | bound(), last | bound(), range_options()) ->
    {[{key(), value()}] | [key()], range_cursor() | done}.
range(Table, From, To, Options) ->
    Result = todana_ranges:range(Table, From, To, Options),
    answer(range, [Table, From, To, Options], Result).

-doc """
A page of at most 100 records whose keys have a prefix, in order, and the cursor
of the next page: `prefix/3` without options.
""".
-spec prefix(table(), iodata() | term()) ->
    {[{key(), value()}], range_cursor() | done}.
prefix(Table, Prefix) ->
    answer(prefix, [Table, Prefix], todana_ranges:prefix(Table, Prefix, #{})).

-doc """
A page of the records whose keys have a prefix, in order, and the cursor of the
next page. The options (`limit`, `reverse`, `keys_only`, `cursor`) and
guarantees are those of `range/4`. With codec `raw`, a prefix is the first bytes
of a key. With codec `term` it is one of these:

- a tuple whose last elements are `'_'`: `{user, 7, '_'}` matches the tuples of
  size 3 that begin with `user` and `7`. Elements may be such tuples:
  `{{user, '_'}, '_'}`
- a list with the tail `'_'`: `[user, 7 | '_']` matches the lists that begin
  with these elements
- a binary: matches the bitstrings that begin with its bytes

Only `'_'` may follow a `'_'`, so that the matching keys are adjacent in the
order. Parts match if they compare equal (`==`): `{1, '_'}` also matches
`{1.0, a}`. In a map, `'_'` is an atom like any other.
""".
-spec prefix(table(), iodata() | term(), range_options()) ->
    {[{key(), value()}] | [key()], range_cursor() | done}.
prefix(Table, Prefix, Options) ->
    Result = todana_ranges:prefix(Table, Prefix, Options),
    answer(prefix, [Table, Prefix, Options], Result).

-doc "The first key; `error` in an empty table.".
-spec first(table()) -> {ok, key()} | error.
first(Table) ->
    answer(first, [Table], todana_ranges:one(Table, first, last, false)).

-doc "The last key; `error` in an empty table.".
-spec last(table()) -> {ok, key()} | error.
last(Table) ->
    answer(last, [Table], todana_ranges:one(Table, first, last, true)).

-doc """
The first key after this one in order; `error` if there is none. The given key
need not exist.
""".
-spec next(table(), key()) -> {ok, key()} | error.
next(Table, Key) ->
    Result = todana_ranges:one(Table, {excluded, Key}, last, false),
    answer(next, [Table, Key], Result).

-doc """
The last key before this one in order; `error` if there is none. The given key
need not exist.
""".
-spec prev(table(), key()) -> {ok, key()} | error.
prev(Table, Key) ->
    Result = todana_ranges:one(Table, first, {excluded, Key}, true),
    answer(prev, [Table, Key], Result).

-doc "Folds over a range in order, with the guarantees of `range/4`.".
-spec fold_range(
    fun((key(), value(), Acc) -> Acc),
    Acc,
    table(),
    first | bound(),
    last | bound()
) -> Acc.
fold_range(Function, Acc, Table, From, To) when is_function(Function, 3) ->
    case todana_ranges:fold(Function, Acc, Table, From, To) of
        {ok, Result} ->
            Result;
        Misuse ->
            Arguments = [Function, Acc, Table, From, To],
            todana_error:raise(fold_range, Arguments, Misuse)
    end;
fold_range(Function, Acc, Table, From, To) ->
    Misuse = {badarg, 1, {not_a_function, 3}},
    todana_error:raise(fold_range, [Function, Acc, Table, From, To], Misuse).

%% ------------------------------------------------------- the whole table ---

-doc "The first page of a scan: `scan/3` from `start`, without options.".
-spec scan(table()) -> {[{key(), value()}], cursor() | done}.
scan(Table) ->
    answer(scan, [Table], todana_pages:scan(Table, start, #{})).

-doc "`scan/3` without options.".
-spec scan(table(), start | cursor()) ->
    {[{key(), value()}], cursor() | done}.
scan(Table, Cursor) ->
    answer(scan, [Table, Cursor], todana_pages:scan(Table, Cursor, #{})).

-doc """
A page of records, and the cursor of the next page. `count` is the approximate
number of records in the page (default 100).

A record that exists from the first page to the last is returned at least once;
a record that is inserted or removed during the scan may or may not be returned.
No lock is held between pages, and a cursor costs nothing to keep or to drop.

A page consists of whole shards of the table (`t:open_options/0`). If the shards
have more than 1,024 records on average, a page has at least as many, and a
dirty scheduler reads it.
""".
-spec scan(table(), start | cursor(), #{count => pos_integer()}) ->
    {[{key(), value()}], cursor() | done}.
scan(Table, Cursor, Options) ->
    Result = todana_pages:scan(Table, Cursor, Options),
    answer(scan, [Table, Cursor, Options], Result).

-doc """
Folds over all records, with the guarantees of `scan/3`; over an ordered table
in order, with the guarantees of `range/4`.
""".
-spec fold(fun((key(), value(), Acc) -> Acc), Acc, table()) -> Acc.
fold(Function, Acc, Table) when is_function(Function, 3) ->
    case todana_pages:fold(Function, Acc, Table) of
        {ok, Result} -> Result;
        Misuse -> todana_error:raise(fold, [Function, Acc, Table], Misuse)
    end;
fold(Function, Acc, Table) ->
    Misuse = {badarg, 1, {not_a_function, 3}},
    todana_error:raise(fold, [Function, Acc, Table], Misuse).

-doc """
All records as a list, in order if the table is ordered. It is read page by
page, with the guarantees of `fold/3`: records that others write meanwhile may
be in the list or not. For the records at one moment use `fold_snapshot/3`.
""".
-spec to_list(table()) -> [{key(), value()}].
to_list(Table) ->
    Collect = fun(Key, Value, Acc) -> [{Key, Value} | Acc] end,
    case todana_pages:fold(Collect, [], Table) of
        {ok, Pairs} ->
            lists:reverse(Pairs);
        {badarg, 3, Cause} ->
            todana_error:raise(to_list, [Table], {badarg, 1, Cause})
    end.

-doc """
Folds over the records as they are now; concurrent writes do not affect it. Only
one snapshot of a table can be read at a time; others return `{error, busy}`.

Records that are changed or removed meanwhile stay in memory for the snapshot. A
table with `bytes_max` abandons the snapshot (`{error, abandoned}`) if they take
more than half of `bytes_max`, or, if the table refuses writes, more than the
memory that is left.
""".
-spec fold_snapshot(fun((key(), value(), Acc) -> Acc), Acc, table()) ->
    {ok, Acc} | {error, busy | abandoned}.
fold_snapshot(Function, Acc, Table) when is_function(Function, 3) ->
    Result = todana_pages:fold_snapshot(Function, Acc, Table),
    answer(fold_snapshot, [Function, Acc, Table], Result);
fold_snapshot(Function, Acc, Table) ->
    Misuse = {badarg, 1, {not_a_function, 3}},
    todana_error:raise(fold_snapshot, [Function, Acc, Table], Misuse).

-doc """
Writes the records of a table to a file, as they are at one moment: a snapshot,
see `fold_snapshot/3`. Others may write to the table meanwhile. The file is
written under another name, synced, and renamed when it is complete; a file of
that name is replaced. Returns the number of records and the size of the file.

`{error, busy}` while another snapshot of the table is read, `{error,
abandoned}` if it takes too much memory, and the reasons of `m:file`.
""".
-spec dump(table(), file:name_all()) ->
    {ok, #{records := non_neg_integer(), bytes := pos_integer()}}
    | {error, busy | abandoned | file:posix() | term()}.
dump(Table, File) ->
    answer(dump, [Table, File], todana_dump:dump(Table, File)).

-doc """
Stores the records of a file that `dump/2` wrote into an open table, which may
have other options than the table that was dumped, and may be in use. A record
replaces one of the same key, and keeps its flags and its time of expiry;
records that have expired are counted and not stored.

Every part of the file is checked before it is stored. An error names the
`reason`, the `offset` in the file, and how many records were `loaded` before;
these remain. The reason is `truncated` or `corrupted`, `not_a_dump`,
`{version, N}` of a later format, `{codec, Codec}` if the table stores keys or
values in another form than the dumped one, `full`, or a reason of `m:file`.
""".
-spec load(table(), file:name_all()) ->
    {ok, #{loaded := non_neg_integer(), expired := non_neg_integer()}}
    | {error, #{
        reason := term(),
        offset := non_neg_integer(),
        loaded := non_neg_integer()
    }}.
load(Table, File) ->
    answer(load, [Table, File], todana_dump:load(Table, File)).

-doc "Number of records, including expired ones that are not yet removed.".
-spec count(table()) -> non_neg_integer().
count(Table) ->
    answer(count, [Table], todana_nif:count(Table)).

-doc "Exact number of bytes of all records, without the table's index.".
-spec bytes(table()) -> non_neg_integer().
bytes(Table) ->
    answer(bytes, [Table], todana_nif:bytes(Table)).

-doc "Removes all records; returns the number removed.".
-spec clear(table()) -> non_neg_integer() | {error, unknown}.
clear(Table) ->
    Handle = handle(Table, clear),
    Clear = fun(Form) -> todana_nif:clear(Handle, Form) end,
    answer(clear, [Table], todana_durable:keyed(0, Clear)).

-doc """
Statistics of a table since it was created: `entries`, `entries_with_expiry`,
`bytes`, `kept_bytes` (in memory only for a snapshot), `index_bytes`, `expired`,
`evicted`, `refused`, `version` (no record has a higher one), `subscriptions`;
`hits` and `misses` of `get/2,3`, `get_many/2` and `fetch/3,4` on this node.
""".
-spec stats(table()) -> #{atom() => non_neg_integer()}.
stats(Table) ->
    Result = case todana_nif:is_away(Table) of
        true -> {badarg, 0, away};
        false -> todana_nif:counts(handle(Table, stats))
    end,
    case Result of
        Counts when is_list(Counts) ->
            #{binary_to_atom(Name) => Count || {Name, Count} <- Counts};
        Misuse ->
            answer(stats, [Table], Misuse)
    end.

%% --------------------------------------------------------------- changes ---

-doc """
Subscribes the calling process to the changes of a table, whatever makes them:
processes, network clients, expiry, eviction. At most 32 subscriptions per table
or database.

The process receives `{todana, Subscription, ready}` when there are events, and
takes them with `events/1`. Until it does, the events wait outside the process,
in a queue of at most `queue_entries_max` events and 8 MiB, and it receives no
further message. If the queue is full, events are dropped and counted:
`{lost, Count}` is in their place. Writers never wait for a subscriber.

Events of one key arrive in the order of its changes; events of different keys
in any order. An event has no value: read the record, which may be a newer one.
A change that follows the call is in the events; so a process that subscribes
first and then reads the table misses nothing.

The subscription ends with the process, with `unsubscribe/1`, or when the table
is closed. In the last case the process receives `{todana, Subscription,
closed}`; also if the module `todana_nif` is deleted, purged and loaded again.

    init(Table) ->
        {ok, Subscription} = todana:subscribe(Table, #{prefix => ~"user:"}),
        {ok, Subscription}.

    handle_info({todana, Subscription, ready}, Subscription) ->
        lists:foreach(fun changed/1, todana:events(Subscription)),
        {noreply, Subscription};
    handle_info({todana, Subscription, closed}, Subscription) ->
        {stop, normal, Subscription}.
""".
-spec subscribe(table(), subscribe_options()) ->
    {ok, subscription()} | {error, too_many_subscriptions}.
subscribe(Table, Options) ->
    Result = todana_subscription:subscribe(Table, Options),
    answer(subscribe, [Table, Options], Result).

-doc """
The oldest events of a subscription, at most 512; `[]` if there are none or it
has ended. Each call allows one more message `ready`: at once if events are
left, otherwise with the next event.
""".
-spec events(subscription()) -> [event()].
events(Subscription) ->
    answer(events, [Subscription], todana_subscription:events(Subscription)).

-doc """
Ends a subscription. It sends no more messages, and those in the caller's
mailbox are removed: if another process than the subscriber calls this, messages
may be left in the subscriber's mailbox.
""".
-spec unsubscribe(subscription()) -> ok.
unsubscribe(Subscription) ->
    Result = todana_subscription:unsubscribe(Subscription),
    answer(unsubscribe, [Subscription], Result).

-doc """
Sets the function that is called for events of the application: tables that are
opened and closed, the server, rejected clients, and once a second the numbers
of expired and evicted records and refused writes: docs/production.md.
The arguments are those of `telemetry:execute/3`, so

    todana:set_event_handler(fun telemetry:execute/3).

The handler runs in a process of its own. If it raises, or takes longer than 5
seconds, it is removed and an error is logged. `none` removes it. The
application's variable `event_handler` sets it at the start.
""".
-spec set_event_handler(none | Handler) -> ok when
    Handler :: fun(
        (
            EventName :: [atom(), ...],
            Measurements :: #{atom() => integer()},
            Metadata :: #{atom() => term()}
        ) -> term()
    ).
set_event_handler(Handler) ->
    Result = todana_events:set_handler(Handler),
    answer(set_event_handler, [Handler], Result).

%% ---------------------------------------------------------------- shared ---

%% Waits until the records are as new as the options say.
-spec reading(atom(), [term()], read_options()) -> ok.
reading(Function, [Table | _] = Arguments, Options) ->
    Wanted = wanted(Function, Arguments, reading, Options),
    Level = maps:get(read, Wanted, local),
    %% In a guest, the call itself takes the level to a member.
    case todana_nif:is_away(Table) of
        true -> ok;
        false -> answer(Function, Arguments, todana_read:await(Table, Level))
    end.

-spec answer(atom(), [term()], term()) -> dynamic().
answer(Function, Arguments, Result) ->
    todana_error:answer(Function, Arguments, Result).

-spec wanted(atom(), [term()], todana_call_options:kind(), map()) -> map().
wanted(Function, Arguments, Kind, Options) ->
    todana_error:wanted(Function, Arguments, Kind, Options).
