%% The node's side of `bin/todana load': stores the records that `dump' printed.
%%
%% The lines are read as they come, and written in batches, so memory is bounded
%% by the longest line. docs/production.md describes a line. Records that are
%% there already are replaced; a line that is wrong ends the load, after the
%% records before it were stored.
-module(todana_load).
-moduledoc false.

-export([run/1]).

-export_type([next/0]).

%% More bytes of the client; `{error, closed}' at their end.
-type next() :: fun(() -> {ok, binary()} | {error, term()}).

-define(LINE_BYTES_MAX, (1 bsl 29)).
%% Records of one write, and their bytes.
-define(BATCH_RECORDS, 256).
-define(BATCH_BYTES, (1 bsl 20)).
-define(FLAGS_MAX, 16#ffffffff).
-define(EXPIRY_MS_MAX, (1 bsl 48)).

-type stored() :: {
    Key :: binary(), Value :: binary(), Flags :: non_neg_integer(),
    %% 0 for none.
    ExpiresAtMs :: non_neg_integer()
}.

-record(state, {
    line = 1 :: pos_integer(),
    %% The beginning of a line, the last part first.
    parts = [] :: [binary()],
    parts_bytes = 0 :: non_neg_integer(),
    %% Of which table the waiting records are, the last one first.
    table = none ::
        none | {Name :: binary(), Codec :: binary(), atom()},
    waiting = [] :: [stored()],
    waiting_bytes = 0 :: non_neg_integer(),
    loaded = 0 :: non_neg_integer(),
    expired = 0 :: non_neg_integer()
}).

-doc "Reads to the end. An error is a sentence that names the line.".
-spec run(next()) ->
    {ok, #{loaded := non_neg_integer(), expired := non_neg_integer()}}
    | {error, iodata()}.
run(Next) ->
    try
        read(Next, #state{})
    catch
        throw:{failed, Sentence, #state{loaded = Loaded}} ->
            {error, [Sentence, io_lib:format("; ~b records are loaded",
                                             [Loaded])]}
    end.

-spec read(next(), #state{}) ->
    {ok, #{loaded := non_neg_integer(), expired := non_neg_integer()}}.
read(Next, State) ->
    case Next() of
        {ok, Bytes} ->
            read(Next, take(binary:split(Bytes, ~"\n", [global]), State));
        {error, closed} ->
            #state{loaded = Loaded, expired = Expired} =
                flush(last(State)),
            {ok, #{loaded => Loaded, expired => Expired}};
        {error, _} ->
            fail("the client sends nothing more", State)
    end.

%% The last part is the beginning of a line.
-spec take([binary()], #state{}) -> #state{}.
take([Part], #state{parts = Parts, parts_bytes = Before} = State) ->
    Bytes = Before + byte_size(Part),
    Bytes =< ?LINE_BYTES_MAX orelse fail_line("it is too long", State),
    State#state{parts = [Part | Parts], parts_bytes = Bytes};
take([End | Parts], #state{parts = Begun} = State) ->
    Line = iolist_to_binary(lists:reverse(Begun, [End])),
    Next = line(Line, State#state{parts = [], parts_bytes = 0}),
    take(Parts, Next#state{line = Next#state.line + 1}).

%% A last line without a line end.
-spec last(#state{}) -> #state{}.
last(#state{parts = Parts} = State) ->
    line(iolist_to_binary(lists:reverse(Parts)), State).

-spec line(binary(), #state{}) -> #state{}.
line(Line, State) ->
    case string:trim(Line) of
        <<>> -> State;
        _ -> record(decode(Line, State), State)
    end.

-spec decode(binary(), #state{}) -> map().
decode(Line, State) ->
    try json:decode(Line) of
        #{} = Record -> Record;
        _ -> fail_line("it is not a JSON object", State)
    catch
        error:_ -> fail_line("it is not JSON", State)
    end.

-spec record(map(), #state{}) -> #state{}.
record(#{~"table" := Name} = Record, State) when is_binary(Name) ->
    case todana_cluster_map:is_table(Name) of
        %% It describes the nodes of the cluster from which the dump is.
        true -> State;
        false -> add(read_record(Record, State), table(Name, Record, State))
    end;
record(_Record, State) ->
    fail_line("it has no `table`", State).

-spec read_record(map(), #state{}) -> stored().
read_record(Record, State) ->
    {
        bytes(~"key", Record, State),
        bytes(~"value", Record, State),
        number(~"flags", Record, 0, ?FLAGS_MAX, State),
        number(~"expires_at_ms", Record, 0, ?EXPIRY_MS_MAX, State)
    }.

-spec bytes(binary(), map(), #state{}) -> binary().
bytes(Name, Record, State) ->
    case Record of
        #{Name := Text} when is_binary(Text) ->
            Text;
        #{Name := #{~"base64" := Text}} when is_binary(Text) ->
            try
                base64:decode(Text)
            catch
                error:_ -> fail_line(["`", Name, "` is not base64"], State)
            end;
        #{} ->
            fail_line(["`", Name, "` is neither a text nor `base64`"], State)
    end.

-spec number(
    binary(), map(), non_neg_integer(), non_neg_integer(), #state{}
) -> non_neg_integer().
number(Name, Record, Default, Max, State) ->
    case maps:get(Name, Record, null) of
        null ->
            Default;
        Number when is_integer(Number), Number >= 0, Number =< Max ->
            Number;
        _ ->
            fail_line(["`", Name, "` is not a number from 0 to ",
                       integer_to_list(Max)], State)
    end.

%% The state with this table. Records of another one are stored first.
-spec table(binary(), map(), #state{}) -> #state{}.
table(Name, Record, #state{table = {Name, Codec, _}} = State) ->
    case maps:get(~"codec", Record, ~"raw") of
        Codec ->
            State;
        _ ->
            fail_line(["the table ", Name, " of this node has the codec ",
                       Codec], State)
    end;
table(Name, Record, State0) ->
    State = flush(State0),
    Opened = open(Name, State),
    #{codec := Codec} = todana:info(Opened),
    Table = {Name, atom_to_binary(Codec), Opened},
    table(Name, Record, State#state{table = Table}).

-spec open(binary(), #state{}) -> atom().
open(Name, State) ->
    Databases = [
        <<"db", (integer_to_binary(N))/binary>> || N <- lists:seq(0, 15)
    ],
    Opened =
        case lists:member(Name, Databases) of
            true ->
                todana_open:open(binary_to_atom(Name), #{});
            false ->
                case lists:member(Name, todana_nif:durable_tables()) of
                    true -> todana_tables:open_kept(binary_to_atom(Name));
                    false -> none
                end
        end,
    case Opened of
        {ok, _} ->
            binary_to_existing_atom(Name);
        none ->
            fail_line(["this node has no durable table ", Name, ": open it "
                       "first"], State);
        Failure ->
            fail_line(["the table ", Name, " cannot be opened: ",
                       io_lib:format("~0tp", [Failure])], State)
    end.

-spec add(stored(), #state{}) -> #state{}.
add({Key, Value, _, _} = Record, State) ->
    #state{waiting = Waiting, waiting_bytes = Before} = State,
    Bytes = Before + byte_size(Key) + byte_size(Value),
    Next = State#state{waiting = [Record | Waiting], waiting_bytes = Bytes},
    case Bytes >= ?BATCH_BYTES orelse length(Waiting) + 1 >= ?BATCH_RECORDS of
        true -> flush(Next);
        false -> Next
    end.

-spec flush(#state{}) -> #state{}.
flush(#state{waiting = []} = State) ->
    State;
flush(#state{table = {_, _, Table}, waiting = Waiting} = State) ->
    #state{loaded = Before, expired = ExpiredBefore} = State,
    Records = lists:reverse(Waiting),
    {Loaded, Expired, Result} = todana_dump:store_encoded(Table, Records),
    Next = State#state{
        waiting = [], waiting_bytes = 0,
        loaded = Before + Loaded, expired = ExpiredBefore + Expired
    },
    case Result of
        ok ->
            Next;
        {error, Reason} ->
            throw({failed, io_lib:format(
                "line ~b or one of the ~b lines before it was not stored: "
                "~0tp", [State#state.line, length(Records), Reason]
            ), Next})
    end.

%% The lines before it are stored.
-spec fail_line(iodata(), #state{}) -> no_return().
fail_line(Why, #state{line = Line} = State) ->
    fail(["line ", integer_to_list(Line), ": ", Why], State).

-spec fail(iodata(), #state{}) -> no_return().
fail(Sentence, State) ->
    throw({failed, Sentence, flush(State)}).
