%% The records of a cluster scope, in a durable table of the scope: the names
%% with their processes, the members of groups, and the sessions of the nodes.
%%
%%     n Name                        {Pid, Ref, Origin, Metadata}
%%     g Group Session Pid Number    {Pid, Ref}
%%     o Session Key                 {Pid, Ref, OnLoss}   one for each of these
%%     s Session                     {Node, live | gone}
%%     e                             {Generation, Era}
%%
%% A key is a letter and bytes. A term is in Erlang's external format, which any
%% term has, and in which a pid has its node; the length of a group stands
%% before it, so that no group is the beginning of another one. A record of a
%% name or a member, and its entry in the session, are written and removed in
%% one step.
%%
%% A *session* is a start of a scope on a node, until the node is silent for
%% long. Each registration is written only if the record of its session is
%% unchanged: none is executed after the session has ended, however late it
%% comes.
%%
%% The *token* of a name is the version of the record with which it was
%% registered, and above it the era. Versions of a table only grow, unless
%% writes are lost: by `cluster force', and in a backup that is restored. So
%% each of these, and the first start, begins another *era*: a later number,
%% made of the time. The *generation* is what they change in the data directory.
-module(todana_scope_records).
-moduledoc false.

-export([table/1, tables/0, known/0, open/1, open_known/1]).
-export([prefix/1, name_key/1, name_key_of/1, name_of/1]).
-export([member_key/4, members_prefix/1, members_prefix_of/1]).
-export([member_prefix/3, member_of/1]).
-export([at/4, at/5]).
-export([refresh/2, refresh/3, read/2, find/3, token/1]).
-export([session/2, session/3, begin_session/2, end_session/2, end_session/3]).
-export([fence/2, forget_session/2]).
-export([generation/0, era/2]).
-export([change/3, change_latest/4, removal/2, writes/3, remove/2, check/2]).
-export([commit/3, removal_bytes/1, fits_step/1]).
-export([sessions/1, some_owned/2, fold_owned/4, fold_names/3, fold_keys/4]).
-export([find_keys/5, groups/2, count/1]).
-export([keys_page/4, next_group/2]).
%% Where the records are
-export([find_here/4, remove_here/2, find_page_here/4, groups_here/3]).

-export_type([table/0, session/0, key/0, ref/0, token/0, on_loss/0]).
-export_type([generation/0]).
-export_type([found/1, name_found/0, failure/0, check/0]).

-type table() :: atom().
-type session() :: <<_:64>>.
%% Of the record of a name or a member.
-type key() :: binary().
%% Of a registration: no other one has it.
-type ref() :: {session(), pos_integer()}.
-type token() :: pos_integer().
-type generation() :: binary() | atom().
-type era() :: pos_integer().
%% What happens if the session ends and the process goes on.
-type on_loss() ::
    {notify | silent, nothing | {again, Metadata :: term()}} | join_again.
%% The registration of a name: its era, in the record that it has written, or
%% the token.
-type origin() :: {era, era()} | {token, token()}.
-type name_value() :: {pid(), ref(), origin(), Metadata :: term()}.
-type owned_value() :: {pid(), ref(), on_loss()}.
-type session_value() :: {node(), live | gone}.
%% A value with the state of its record, or the state alone.
-type found(Value) :: {ok, Value, todana_commit:state()}
    | {none, todana_commit:state()}.
-type name_found() :: found(name_value()).
%% A record that has to be unchanged.
-type check() :: {binary(), todana_commit:state()}.
%% `unavailable`: not executed. `unknown`: perhaps.
-type failure() :: {error, unavailable | unknown | full | too_large}.

-define(PREFIX, "todana_names.").
-define(PAGE, 500).
%% Registrations that are removed in one step, for which other writes wait. With
%% the longest keys, they are within ?STEP_BYTES.
-define(STEP, 50).
%% Of the keys and values in a step of the log (`native/nif/src/submit.rs').
-define(STEP_BYTES, (16 bsl 20)).
%% How long a guest waits for a seat.
-define(SEAT_MS, 1_000).
%% A token has 63 bits for decades: the others are seconds. An era may have more
%% versions, since it has fewer in a second.
-define(VERSION_BITS, 33).
%% Of the year 2026, in seconds.
-define(FIRST_S, 1_767_225_600).

-doc "The table of a scope.".
-spec table(atom()) -> table().
table(Scope) -> list_to_atom(?PREFIX ++ atom_to_list(Scope)).

-doc "The tables of all scopes that the log has.".
-spec tables() -> [table()].
tables() ->
    [
        binary_to_atom(Name)
     || <<?PREFIX, _/binary>> = Name <- todana_nif:durable_tables()
    ].

-doc """
The names of the scopes that the log has, as this node knows them: it may be
behind. A misuse while the records cannot be read.
""".
-spec known() -> [binary()] | todana_error:cause().
known() ->
    case todana_nif:durable_state() of
        none ->
            [];
        _ ->
            case todana_nif:group_tables(todana_raft_groups:first()) of
                {badarg, _, _} = Misuse -> Misuse;
                Tables -> [Scope || <<?PREFIX, Scope/binary>> <- Tables]
            end
    end.

-doc "Opens the table of a scope, and creates it if the log has none.".
-spec open(table()) -> ok | {error, unavailable | differs}.
open(Table) ->
    Options = #{durable => true, codec => raw, order => lexical,
                type => ordered_set},
    case todana_open:open(Table, Options) of
        {ok, _} -> ok;
        {error, {exists, _}} -> {error, differs};
        {error, _} -> {error, unavailable};
        {badarg, _, _} -> {error, unavailable}
    end.

-doc "Opens a table that the log of this node has.".
-spec open_known(table()) -> ok | {error, term()}.
open_known(Table) ->
    case todana_tables:is_open(Table) of
        true ->
            ok;
        false ->
            case todana_tables:open_kept(Table) of
                {ok, _} -> ok;
                {error, _} = Failure -> Failure;
                %% The application stops.
                Misuse -> {error, Misuse}
            end
    end.

-doc """
The result of a function of a table and these arguments, where its records are:
on this node, or, on a guest, at its seat, in one message each way.
""".
-spec at(table(), module(), atom(), [term()]) -> dynamic().
at(Table, Module, Function, Arguments) ->
    at(Table, Module, Function, Arguments, todana_durable:timeout_ms()).

-doc "The same within this time on a guest, if it only reads.".
-spec at(table(), module(), atom(), [term()], pos_integer()) -> dynamic().
at(Table, Module, Function, Arguments, TimeoutMs) ->
    case todana_guest:is_guest() of
        false ->
            apply(Module, Function, [Table | Arguments]);
        true ->
            %% Without a seat, nothing is executed.
            Times = {min(?SEAT_MS, TimeoutMs), TimeoutMs},
            case todana_away:call(Module, Function, Table, Arguments, Times) of
                {badarg, _, Cause} -> failure(Cause);
                Result -> Result
            end
    end.

-doc "Returns when the records here are as new as the level says.".
-spec refresh(table(), todana:read_level()) -> ok | failure().
refresh(Table, Level) ->
    refresh(Table, Level, todana_durable:timeout_ms()).

-spec refresh(table(), todana:read_level(), pos_integer()) -> ok | failure().
refresh(Table, Level, TimeoutMs) ->
    case todana_read:await(Table, Level, TimeoutMs) of
        ok -> ok;
        {badarg, _, _} -> {error, unavailable}
    end.

-doc "The record of a key, of the level `bounded`.".
-spec find(table(), binary(), pos_integer()) -> found(dynamic()) | failure().
find(Table, Key, TimeoutMs) -> find(Table, Key, bounded, TimeoutMs).

-spec find(table(), binary(), todana:read_level(), pos_integer()) ->
    found(dynamic()) | failure().
find(Table, Key, Level, TimeoutMs) ->
    Arguments = [Key, Level, TimeoutMs],
    decoded(at(Table, ?MODULE, find_here, Arguments, TimeoutMs)).

-doc "Its bytes on this node.".
-spec find_here(table(), binary(), todana:read_level(), pos_integer()) ->
    found(binary()) | failure().
find_here(Table, Key, Level, TimeoutMs) ->
    maybe
        ok ?= refresh(Table, Level, TimeoutMs),
        bytes_of(Table, Key)
    end.

-spec decoded(found(binary()) | failure()) -> found(dynamic()) | failure().
decoded({ok, Bytes, State}) -> {ok, binary_to_term(Bytes), State};
decoded(NotFound) -> NotFound.

-doc "The token of a name that was found.".
-spec token(name_found()) -> token() | none.
token({ok, {_Pid, _Ref, {era, Era}, _Metadata}, State}) ->
    Era bsl ?VERSION_BITS + todana_commit:version(State);
token({ok, {_Pid, _Ref, {token, Token}, _Metadata}, _State}) ->
    Token;
token({none, _State}) ->
    none.

-doc "The record of a session on this node.".
-spec session(table(), session()) -> found(session_value()) | failure().
session(Table, Session) -> read(Table, session_key(Session)).

-doc "The same. A guest waits for the answer for this time at most.".
-spec session(table(), session(), pos_integer()) ->
    found(session_value()) | failure().
session(Table, Session, TimeoutMs) ->
    find(Table, session_key(Session), local, TimeoutMs).

-doc "Writes that a session of this node has begun; ok if it has before.".
-spec begin_session(table(), session()) -> ok | failure().
begin_session(Table, Session) ->
    Key = session_key(Session),
    case read(Table, Key) of
        {none, State} ->
            Write = record(Key, {node(), live}),
            case commit(Table, [{Key, State}], [Write]) of
                conflict -> ok;
                Result -> Result
            end;
        {ok, _, _} ->
            ok;
        Failure ->
            Failure
    end.

-doc "Writes that a session has ended: no name is registered in it any more.".
-spec end_session(table(), session()) -> ok | failure().
end_session(Table, Session) ->
    case end_session(Table, Session, fun() -> true end) of
        false -> end_session(Table, Session);
        Result -> Result
    end.

-doc """
The same, if the function says so after the session was read. `false` if not, or
if the session has been fenced since.
""".
-spec end_session(table(), session(), fun(() -> boolean())) ->
    ok | false | failure().
end_session(Table, Session, IsWanted) ->
    Key = session_key(Session),
    maybe
        {ok, {Node, live}, State} ?= read(Table, Key),
        true ?= IsWanted(),
        ok ?= commit(Table, [{Key, State}], [record(Key, {Node, gone})])
    else
        {ok, {_, gone}, _} -> ok;
        {none, _} -> ok;
        conflict -> false;
        NotEnded -> NotEnded
    end.

-doc "Removes the record of a session that has ended and has no names.".
-spec forget_session(table(), session()) -> ok | failure().
forget_session(Table, Session) ->
    Key = session_key(Session),
    case read(Table, Key) of
        {ok, {_Node, gone}, State} ->
            case commit(Table, [{Key, State}], [{Key}]) of
                conflict -> ok;
                Result -> Result
            end;
        {error, _} = Failure ->
            Failure;
        _ ->
            ok
    end.

-doc """
What changes when writes may have been lost; `unknown` while they are given up.
""".
-spec generation() -> generation() | unknown.
generation() ->
    case todana_guest:is_guest() of
        true ->
            case todana_away:ask(?MODULE, generation, none, []) of
                {badarg, _, _} -> unknown;
                Generation -> Generation
            end;
        false ->
            own_generation()
    end.

-spec own_generation() -> generation() | unknown.
own_generation() ->
    case todana_raft_groups:opened(todana_raft_groups:first()) of
        #{cluster := none, uid := UId} -> UId;
        #{forced := true} -> unknown;
        #{server := Server} -> Server
    end.

-doc "The era of this generation, which is begun if there is none.".
-spec era(table(), generation() | unknown) -> {ok, era(), check()} | failure().
era(_Table, unknown) ->
    {error, unavailable};
era(Table, Generation) ->
    case read(Table, ~"e") of
        {ok, {Generation, Era}, State} ->
            {ok, Era, {~"e", State}};
        {ok, {_Other, Era}, State} ->
            begin_era(Table, Generation, Era, State);
        {none, State} ->
            begin_era(Table, Generation, 0, State);
        Failure ->
            Failure
    end.

-spec begin_era(table(), generation(), era() | 0, todana_commit:state()) ->
    {ok, era(), check()} | failure().
begin_era(Table, Generation, Before, State) ->
    Seconds = erlang:system_time(second) - ?FIRST_S,
    Value = {Generation, max(Before + 1, Seconds)},
    case commit(Table, [{~"e", State}], [record(~"e", Value)]) of
        Done when Done =:= ok; Done =:= conflict -> era(Table, Generation);
        Failure -> Failure
    end.

-doc """
Returns when nothing that was submitted in the session before, with an outcome
that nobody knows, can still be executed. The records here have what was.
""".
-spec fence(table(), session()) -> ok | failure().
fence(Table, Session) ->
    Key = session_key(Session),
    case read(Table, Key) of
        {ok, Value, State} ->
            case commit(Table, [{Key, State}], [record(Key, Value)]) of
                %% The record has changed since it was read.
                conflict -> ok;
                Result -> Result
            end;
        {none, _State} ->
            ok;
        Failure ->
            Failure
    end.

-doc """
Makes the writes that the function decides about by the record of the name, in
one step, if that record and the checked ones are unchanged. If one has changed,
the function is called again. The result is its own.
""".
-spec change(table(), key(), Decide) -> Decided | failure() when
    Decide :: fun((found(dynamic())) ->
        {commit, [check()], [todana_commit:write()], Decided} | Decided).
change(Table, Key, Decide) ->
    Read = fun() -> read(Table, Key) end,
    DeadlineMs = now_ms() + todana_durable:timeout_ms(),
    change(Table, Key, Read, Decide, DeadlineMs, 1).

-doc """
The same by the newest record, also if another node has written it a moment ago.
That is found out within this time. Or a function makes the writes, where the
records are: `at/4`.
""".
-spec change_latest(table(), key(), pos_integer(), Decide) ->
    Decided | failure() when
    Decide :: fun((found(dynamic())) ->
        {commit, [check()], [todana_commit:write()], Decided}
        | {at, module(), atom(), [term()], Decided}
        | Decided).
change_latest(Table, Key, TimeoutMs, Decide) ->
    Read = fun() -> find(Table, Key, linear, TimeoutMs) end,
    DeadlineMs = now_ms() + todana_durable:timeout_ms(),
    change(Table, Key, Read, Decide, DeadlineMs, 1).

-spec change(
    table(), key(), fun(() -> found(dynamic()) | failure()),
    fun((found(dynamic())) -> term()), integer(), pos_integer()
) -> dynamic().
change(Table, Key, Read, Decide, DeadlineMs, Attempt) ->
    case Read() of
        {error, _} = Failure ->
            Failure;
        Found ->
            case made(Table, Key, Found, Decide(Found)) of
                {ok, Decided} ->
                    Decided;
                {conflict, _} ->
                    again(Table, Key, Read, Decide, DeadlineMs, Attempt);
                {{error, _} = Failure, _} ->
                    Failure;
                {decided, Decided} ->
                    Decided
            end
    end.

%% What became of the writes, if it was decided to make some.
-spec made(table(), key(), found(dynamic()), term()) ->
    {ok | conflict | failure() | decided, dynamic()}.
made(Table, Key, Found, {commit, Checks, Writes, Decided}) ->
    State = element(tuple_size(Found), Found),
    {commit(Table, [{Key, State} | Checks], Writes), Decided};
made(Table, _Key, _Found, {at, Module, Function, Arguments, Decided}) ->
    {at(Table, Module, Function, Arguments), Decided};
made(_Table, _Key, _Found, Decided) ->
    {decided, Decided}.

-spec again(
    table(), key(), fun(() -> found(dynamic()) | failure()),
    fun((found(dynamic())) -> term()), integer(), pos_integer()
) -> dynamic().
again(Table, Key, Read, Decide, DeadlineMs, Attempt) ->
    case now_ms() < DeadlineMs of
        true ->
            ok = todana_commit:pause(Attempt),
            change(Table, Key, Read, Decide, DeadlineMs, Attempt + 1);
        false ->
            {error, unavailable}
    end.

-doc "That the record of a session is as it was found.".
-spec check(session(), found(session_value())) -> check().
check(Session, Found) ->
    {session_key(Session), element(tuple_size(Found), Found)}.

-doc "The removal of what a registration has written.".
-spec removal(key(), ref()) -> [todana_commit:write()].
removal(Key, {Session, _Number}) -> [{Key}, {owned_key(Session, Key)}].

-doc "Bytes of a step that removes it: each key is checked and removed.".
-spec removal_bytes(key()) -> pos_integer().
removal_bytes(Key) ->
    2 * (byte_size(Key) + byte_size(owned_key(<<0:64>>, Key))).

-doc "Whether one step can remove the registrations of all these keys.".
-spec fits_step([key()]) -> boolean().
fits_step(Keys) ->
    lists:sum([removal_bytes(Key) || Key <- Keys]) =< ?STEP_BYTES.

-doc "The records of a registration.".
-spec writes(key(), tuple(), on_loss()) -> [todana_commit:write()].
writes(Key, Value, OnLoss) ->
    Pid = element(1, Value),
    {Session, _} = Ref = element(2, Value),
    [record(Key, Value), record(owned_key(Session, Key), {Pid, Ref, OnLoss})].

-doc """
Removes the records of these registrations, those that are left, in one step.
`conflict` if one of them has changed meanwhile.
""".
-spec remove(table(), [{key(), ref()}]) -> ok | conflict | failure().
remove(Table, Registrations) ->
    at(Table, ?MODULE, remove_here, [Registrations]).

-doc "The same on this node.".
-spec remove_here(table(), [{key(), ref()}]) -> ok | conflict | failure().
remove_here(Table, Registrations) ->
    case present(Table, Registrations, []) of
        [] -> ok;
        {error, _} = Failure -> Failure;
        Present -> commit(Table, Present, [{Key} || {Key, _State} <- Present])
    end.

-spec present(table(), [{key(), ref()}], [check()]) -> [check()] | failure().
present(_Table, [], Present) ->
    Present;
present(Table, [{Key, {Session, _} = Ref} | Others], Present) ->
    Keys = [Key, owned_key(Session, Key)],
    Found = [{K, has(Ref, read(Table, K))} || K <- Keys],
    case lists:keyfind({error, unavailable}, 2, Found) of
        false ->
            Checks = [{K, State} || {K, {true, State}} <- Found],
            present(Table, Others, Checks ++ Present);
        {_Key, Failure} ->
            Failure
    end.

%% Whether it is a record of this registration.
-spec has(ref(), found(tuple()) | failure()) ->
    {true, todana_commit:state()} | false | failure().
has(_Ref, {error, _} = Failure) -> Failure;
has(Ref, {ok, Value, State}) when element(2, Value) =:= Ref -> {true, State};
has(_Ref, _Found) -> false.

-doc "The key of a name.".
-spec name_key(Name :: term()) -> key().
name_key(Name) -> name_key_of(todana_external:bytes(Name)).

-doc "The same of a name in the external format, as the records have it.".
-spec name_key_of(binary()) -> key().
name_key_of(Bytes) -> <<$n, Bytes/binary>>.

-doc "The name of a key.".
-spec name_of(key()) -> {name, Name :: term()} | none.
name_of(<<$n, Bytes/binary>>) -> {name, binary_to_term(Bytes)};
name_of(_Key) -> none.

-doc "How the keys of names begin, or those of members.".
-spec prefix(names | groups) -> binary().
prefix(names) -> ~"n";
prefix(groups) -> members_prefix(all).

-doc "The key of a member of a group: a process may be one several times.".
-spec member_key(Group :: term(), session(), pid(), pos_integer()) -> key().
member_key(Group, Session, Pid, Number) ->
    <<(member_prefix(Group, Session, Pid))/binary, Number:64>>.

-doc "How the keys of a process in a group begin.".
-spec member_prefix(Group :: term(), session(), pid()) -> binary().
member_prefix(Group, Session, Pid) ->
    Bytes = todana_external:bytes(Pid),
    <<(members_prefix({group, Group, Session}))/binary,
      (byte_size(Bytes)):16, Bytes/binary>>.

-doc """
How the keys of members begin: of all groups, of one, or of one and a session.
""".
-spec members_prefix(all | {group, term()} | {group, term(), session()}) ->
    binary().
members_prefix(all) ->
    ~"g";
members_prefix({group, Group}) ->
    members_prefix_of(todana_external:bytes(Group));
members_prefix({group, Group, Session}) ->
    <<(members_prefix({group, Group}))/binary, Session/binary>>.

-doc "The same of a group in the external format, as the records have it.".
-spec members_prefix_of(binary()) -> binary().
members_prefix_of(Bytes) -> <<$g, (byte_size(Bytes)):32, Bytes/binary>>.

-doc "The group and the process of a key.".
-spec member_of(key()) -> {Group :: term(), pid()}.
member_of(
    <<$g, Size:32, Group:Size/binary, _Session:8/binary, Length:16,
      Pid:Length/binary, _Number:64>>
) ->
    {binary_to_term(Group), binary_to_term(Pid)}.

-spec owned_key(session(), key()) -> binary().
owned_key(Session, Key) -> <<$o, Session/binary, Key/binary>>.

-spec session_key(session()) -> binary().
session_key(Session) -> <<$s, Session/binary>>.

-doc "The record of a key on this node.".
-spec read(table(), binary()) -> found(dynamic()) | failure().
read(Table, Key) -> decoded(bytes_of(Table, Key)).

-spec bytes_of(table(), binary()) -> found(binary()) | failure().
bytes_of(Table, Key) ->
    case todana_commit:read(Table, Key) of
        {{ok, Bytes}, State, _Options} -> {ok, Bytes, State};
        {error, State} -> {none, State};
        {badarg, _, Cause} -> failure(Cause)
    end.

-spec record(binary(), term()) -> todana_commit:write().
record(Key, Value) -> {Key, term_to_binary(Value), 0, never}.

-doc "Makes writes in one step, if the checked records are unchanged.".
-spec commit(table(), [check()], [todana_commit:write()]) ->
    ok | conflict | failure().
commit(Table, Checks, Writes) ->
    case todana_commit:commit(Table, Checks, Writes) of
        {badarg, _, Cause} -> failure(Cause);
        Result -> Result
    end.

%% A table that is closed is so because the application stops.
-spec failure(term()) -> failure().
failure(Cause) when Cause =:= key_too_long; Cause =:= value_too_long ->
    {error, too_large};
failure(_Cause) ->
    {error, unavailable}.

-doc "All sessions.".
-spec sessions(table()) ->
    [{session(), node(), live | gone}] | failure().
sessions(Table) ->
    Add = fun({<<$s, Session:8/binary>>, Value}, Acc) ->
        {Node, Life} = binary_to_term(Value),
        [{Session, Node, Life} | Acc]
    end,
    fold(Add, [], Table, ~"s", start, false).

-doc "Registrations of a session: all, if there are only a few.".
-spec some_owned(table(), session()) -> [{key(), owned_value()}] | failure().
some_owned(Table, Session) ->
    case page(Table, <<$o, Session/binary>>, start, false, ?STEP) of
        {error, _} = Failure ->
            Failure;
        {Records, _Next} ->
            [
                {Key, binary_to_term(Value)}
             || {<<$o, _:8/binary, Key/binary>>, Value} <- Records
            ]
    end.

-doc "A function of each registration of a session.".
-spec fold_owned(
    fun((key(), owned_value(), Acc) -> Acc), Acc, table(), session()
) -> Acc | failure().
fold_owned(Function, Acc, Table, Session) ->
    Each = fun({<<$o, _:8/binary, Key/binary>>, Value}, Sum) ->
        Function(Key, binary_to_term(Value), Sum)
    end,
    fold(Each, Acc, Table, <<$o, Session/binary>>, start, false).

-doc "A function of each name.".
-spec fold_names(
    fun((Name :: term(), name_value(), Acc) -> Acc), Acc, table()
) -> Acc | failure().
fold_names(Function, Acc, Table) ->
    Each = fun({<<$n, Bytes/binary>>, Value}, Sum) ->
        Function(binary_to_term(Bytes), binary_to_term(Value), Sum)
    end,
    fold(Each, Acc, Table, ~"n", start, false).

-doc "A function of each key that begins with these bytes.".
-spec fold_keys(fun((key(), Acc) -> Acc), Acc, table(), binary()) ->
    Acc | failure().
fold_keys(Function, Acc, Table, Prefix) ->
    fold(Function, Acc, Table, Prefix, start, true).

-doc "The number of names.".
-spec count(table()) -> non_neg_integer() | failure().
count(Table) -> fold_keys(fun(_Key, N) -> N + 1 end, 0, Table, ~"n").

-doc "The same, of the level `bounded`.".
-spec find_keys(
    fun((key(), Acc) -> Acc), Acc, table(), binary(), pos_integer()
) -> Acc | failure().
find_keys(Function, Acc, Table, Prefix, TimeoutMs) ->
    Arguments = [Prefix, true, TimeoutMs],
    case at(Table, ?MODULE, find_page_here, Arguments, TimeoutMs) of
        {error, _} = Failure ->
            Failure;
        {Keys, Next} ->
            Sum = lists:foldl(Function, Acc, Keys),
            fold(Function, Sum, Table, Prefix, Next, true)
    end.

-doc "The first page, on this node.".
-spec find_page_here(table(), binary(), boolean(), pos_integer()) ->
    {[dynamic()], {cursor, binary()} | done} | failure().
find_page_here(Table, Prefix, KeysOnly, TimeoutMs) ->
    maybe
        ok ?= refresh(Table, bounded, TimeoutMs),
        page(Table, Prefix, start, KeysOnly)
    end.

-doc """
The groups that have a member, of the level `bounded`, by a step from each to
the next one.
""".
-spec groups(table(), pos_integer()) -> [Group :: term()] | failure().
groups(Table, TimeoutMs) ->
    groups(Table, {first, TimeoutMs}, []).

-spec groups(table(), {first, pos_integer()} | {next, binary()}, [term()]) ->
    [term()] | failure().
groups(Table, From, Groups) ->
    case at(Table, ?MODULE, groups_here, [From, ?PAGE]) of
        {error, _} = Failure -> Failure;
        {Some, done} -> [binary_to_term(G) || G <- Some] ++ Groups;
        {Some, Next} ->
            All = [binary_to_term(G) || G <- Some] ++ Groups,
            groups(Table, Next, All)
    end.

-doc "The bytes of some of them, on this node.".
-spec groups_here(
    table(), {first, pos_integer()} | {next, binary()}, pos_integer()
) -> {[Group :: binary()], {next, binary()} | done} | failure().
groups_here(Table, {first, TimeoutMs}, Most) ->
    maybe
        ok ?= refresh(Table, bounded, TimeoutMs),
        some_groups(Table, start, Most, [])
    end;
groups_here(Table, {next, Before}, Most) ->
    some_groups(Table, Before, Most, []).

-spec some_groups(table(), binary() | start, non_neg_integer(), [binary()]) ->
    {[Group :: binary()], {next, binary()} | done} | failure().
some_groups(_Table, Before, 0, Groups) ->
    {Groups, {next, Before}};
some_groups(Table, Before, Most, Groups) ->
    case next_group(Table, Before) of
        {group, Group} ->
            some_groups(Table, Group, Most - 1, [Group | Groups]);
        none ->
            {Groups, done};
        Failure ->
            Failure
    end.

-doc "The group behind one, in the external format, as the keys have it.".
-spec next_group(table(), binary() | start) ->
    {group, binary()} | none | failure().
next_group(Table, start) -> next_key_of_group(Table, ~"g");
next_group(Table, Group) -> next_key_of_group(Table, behind_group(Group)).

-spec next_key_of_group(table(), binary()) ->
    {group, binary()} | none | failure().
next_key_of_group(Table, From) ->
    Options = #{limit => 1, keys_only => true},
    case todana_ranges:range(Table, {excluded, From}, ~"h", Options) of
        {[<<$g, Size:32, Group:Size/binary, _/binary>>], _} ->
            {group, Group};
        {badarg, _, Cause} ->
            failure(Cause);
        {[], {cursor, Next}} ->
            next_key_of_group(Table, Next);
        {_, _} ->
            none
    end.

%% Behind all keys of the group: a session has 8 bytes.
-spec behind_group(binary()) -> binary().
behind_group(Group) ->
    <<(members_prefix_of(Group))/binary, 16#ffffffffffffffffff:72>>.

-doc "Keys that begin with these bytes, behind one of them.".
-spec keys_page(table(), binary(), start | {cursor, binary()}, pos_integer()) ->
    {[key()], {cursor, binary()} | done} | failure().
keys_page(Table, Prefix, Cursor, Limit) ->
    page(Table, Prefix, Cursor, true, Limit).

-spec fold(
    fun((dynamic(), Acc) -> Acc), Acc, table(), binary(),
    start | {cursor, binary()} | done, KeysOnly :: boolean()
) -> Acc | failure().
fold(_Function, Acc, _Table, _Prefix, done, _KeysOnly) ->
    Acc;
fold(Function, Acc, Table, Prefix, Cursor, KeysOnly) ->
    case page(Table, Prefix, Cursor, KeysOnly) of
        {error, _} = Failure ->
            Failure;
        {Records, Next} ->
            Sum = lists:foldl(Function, Acc, Records),
            fold(Function, Sum, Table, Prefix, Next, KeysOnly)
    end.

-spec page(table(), binary(), start | {cursor, binary()}, boolean()) ->
    {[dynamic()], {cursor, binary()} | done} | failure().
page(Table, Prefix, Cursor, KeysOnly) ->
    page(Table, Prefix, Cursor, KeysOnly, ?PAGE).

-spec page(
    table(), binary(), start | {cursor, binary()}, boolean(), pos_integer()
) -> {[dynamic()], {cursor, binary()} | done} | failure().
page(Table, Prefix, Cursor, KeysOnly, Limit) ->
    Options = #{limit => Limit, cursor => Cursor, keys_only => KeysOnly},
    case todana_ranges:prefix(Table, Prefix, Options) of
        {badarg, _, Cause} -> failure(Cause);
        Page -> Page
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
