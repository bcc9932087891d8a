%% SPDX-License-Identifier: Apache-2.0
%%
%% A small shop with a defect, to try kymo on: doc/tutorial.md finds it.
%%
%% Each of four customers puts items into a cart, which is a server of its own. The cart
%% asks the server `prices' what the item costs. Prices change, so `prices' reads its list
%% again every second. A customer who waits for more than 30 ms complains.
-module(shop).
-behaviour(gen_server).

-export([start/0, customer/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(CUSTOMERS, 4).
-define(ITEMS, 2000).
-define(CHANGES, 100).

start() ->
    {ok, _} = gen_server:start({local, prices}, ?MODULE, prices, []),
    [spawn(?MODULE, customer, [N]) || N <- lists:seq(1, ?CUSTOMERS)],
    ok.

customer(N) ->
    {ok, Cart} = gen_server:start_link({local, list_to_atom("cart_" ++ integer_to_list(N))}, ?MODULE, cart, []),
    shopping(N, Cart).

shopping(N, Cart) ->
    timer:sleep(rand:uniform(20)),
    Begin = erlang:monotonic_time(millisecond),
    ok = gen_server:call(Cart, {add, rand:uniform(?ITEMS)}),
    case erlang:monotonic_time(millisecond) - Begin of
        Ms when Ms > 30 -> io:format("customer ~b waited ~b ms~n", [N, Ms]);
        _ -> ok
    end,
    shopping(N, Cart).

init(cart) ->
    {ok, {cart, 0}};
init(prices) ->
    Text = price_list(),
    {ok, _} = timer:send_interval(1000, reload),
    {ok, {prices, Text, read(Text)}}.

handle_call({add, Item}, _From, {cart, Total}) ->
    {reply, ok, {cart, Total + gen_server:call(prices, {price, Item})}};
handle_call({price, Item}, _From, {prices, _, Prices} = State) ->
    {reply, maps:get(Item, Prices), State}.

handle_cast(_, State) ->
    {noreply, State}.

handle_info(reload, {prices, Text, _}) ->
    {noreply, {prices, Text, read(Text)}}.

%% Lines of "Item Cents", one for each change of a price: the last one of an item counts.
price_list() ->
    iolist_to_binary([
        io_lib:format("~b ~b~n", [Item, Item * Change rem 9973])
     || Change <- lists:seq(1, ?CHANGES), Item <- lists:seq(1, ?ITEMS)
    ]).

read(Text) ->
    maps:from_list([price(Line) || Line <- binary:split(Text, <<"\n">>, [global, trim])]).

price(Line) ->
    [Item, Cents] = binary:split(Line, <<" ">>),
    {binary_to_integer(Item), binary_to_integer(Cents)}.
